# cmake -D OUTPUT=... -D FILES=a.cc,b.cc -P batch.cmake
#
# Combines several source files into one. The contents of a file's unnamed namespace are wrapped in a
# namespace with the file's name, so that files can use the same names independently. The rest of the same
# file can see into it; tests consist of an unnamed namespace only.
string(REPLACE "," ";" files "${FILES}")
set(text "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  set(end "}}")
  if(NOT name MATCHES "_test$")
    string(APPEND end " using namespace ${name}_cc;")
  endif()
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name}_cc { namespace {\n" content "${content}")
  string(REPLACE "\n}  // namespace\n" "\n${end}\n" content "${content}")
  string(APPEND text "#line 1 \"${file}\"\n${content}\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
