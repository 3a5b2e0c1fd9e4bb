# cmake -D OUTPUT=... -D FILES=a_test.cc,b_test.cc -P batch.cmake
#
# One source of several tests. What a test keeps in an unnamed namespace goes
# into one of the file's name, so that tests need not know of each other's names.
string(REPLACE "," ";" files "${FILES}")
set(text "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} {\n" content "${content}")
  string(APPEND text "#line 1 \"${file}\"\n${content}\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
