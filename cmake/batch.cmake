# cmake -D OUTPUT=... -D FILES=a.cc,b.cc -P batch.cmake
#
# One source of several files. What a file keeps in an unnamed namespace goes
# into one inside a namespace of the file's name, so that files need not know of
# each other's names. Only the rest of a file sees in; tests have no such rest.
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
