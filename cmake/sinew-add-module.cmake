# sinew_add_module(NAME SOURCES .. LINK targets..): the transport NAME as a module, target sinew_NAME, file sinew_NAME.so
# by which SINEW_TRANSPORT_PATH finds it. One of its sources says SINEW_MODULE(function) (sinew/core/module_entry.hpp).
function(sinew_add_module name)
  cmake_parse_arguments(M "" "" "SOURCES;LINK" ${ARGN})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$" OR NOT M_SOURCES OR M_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sinew_add_module(${name} ${ARGN}): expected a name in lower case, SOURCES files.. [LINK targets..]")
  endif()
  add_library(sinew_${name} MODULE ${M_SOURCES})
  target_link_libraries(sinew_${name} PRIVATE sinew::core ${M_LINK})
  set_target_properties(sinew_${name} PROPERTIES
    PREFIX ""
    SUFFIX .so
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
