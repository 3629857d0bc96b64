# Modules: transports and offloads in files of their own, loaded when a World asks for them.
set(SINEW_MODULE_FOLDER sinew-modules)  # beside the libraries

# sinew_contract_hash(OUT headers..): the hash of the contract that a module is compiled against. A changed header
# configures the build anew.
function(sinew_contract_hash out)
  set(text "")
  foreach(header IN LISTS ARGN)
    file(SHA256 ${header} hash)
    string(APPEND text "${hash}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  endforeach()
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${out} ${hash} PARENT_SCOPE)
endfunction()

# sinew_module(NAME [PACKAGE package] SOURCES .. PRIVATE targets..): sinew_NAME.so in the folder of modules beside the libraries
#   PACKAGE  the Debian package that has the module; default sinew-NAME
function(sinew_module name)
  cmake_parse_arguments(M "" "PACKAGE" "SOURCES;PRIVATE" ${ARGN})
  if(NOT M_PACKAGE)
    set(M_PACKAGE sinew-${name})
  endif()
  sinew_include_root(inc ${name} transports/${name})
  # An object library, so that tests can hold it without the loader.
  add_library(sinew_${name}_objects OBJECT ${M_SOURCES})
  target_include_directories(sinew_${name}_objects PUBLIC ${inc})
  target_link_libraries(sinew_${name}_objects PUBLIC sinew::core PRIVATE ${M_PRIVATE})
  add_library(sinew_${name} MODULE $<TARGET_OBJECTS:sinew_${name}_objects>)
  target_link_libraries(sinew_${name} PRIVATE sinew::core ${M_PRIVATE})
  set_target_properties(sinew_${name} PROPERTIES
    PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${SINEW_MODULE_FOLDER}
    INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS sinew_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${SINEW_MODULE_FOLDER} COMPONENT ${M_PACKAGE})
endfunction()
