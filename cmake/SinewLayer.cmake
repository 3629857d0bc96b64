# One call per folder. Each layer has an include root of its own, cmake/roots/NAME, that holds nothing but a link to its
# sources, so that an include against the layer order has no path to be found on.
include(GNUInstallDirs)

# sinew_restore_link(LINK TARGET): makes a link of cmake/roots where it is missing. The source distribution has no links, as
# the tools that pack it would copy what they lead to.
function(sinew_restore_link link target)
  if(NOT EXISTS ${link})
    get_filename_component(folder ${link} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(RELATIVE_PATH way ${folder} ${target})
    file(CREATE_LINK ${way} ${link} SYMBOLIC)
  endif()
endfunction()

# sinew_include_root(OUT NAME FOLDER): the include root of a layer, in which sinew/FOLDER leads to this folder
function(sinew_include_root out name folder)
  set(inc ${PROJECT_SOURCE_DIR}/cmake/roots/${name})
  sinew_restore_link(${inc}/sinew/${folder} ${CMAKE_CURRENT_SOURCE_DIR})
  file(REAL_PATH ${inc}/sinew/${folder} found)
  file(REAL_PATH ${CMAKE_CURRENT_SOURCE_DIR} expected)
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${inc}/sinew/${folder} leads to ${found}, expected a link to ${expected}")
  endif()
  set(${out} ${inc} PARENT_SCOPE)
endfunction()

# sinew_layer(NAME [FOLDER dir] SOURCES .. HEADERS .. PUBLIC targets.. PRIVATE targets..)
#   NAME    target is sinew_NAME, alias sinew::NAME
#   FOLDER  path under sinew/ in include lines; default NAME
function(sinew_layer name)
  cmake_parse_arguments(L "" "FOLDER" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(NOT L_FOLDER)
    set(L_FOLDER ${name})
  endif()
  sinew_include_root(inc ${name} ${L_FOLDER})
  add_library(sinew_${name} SHARED ${L_SOURCES})
  add_library(sinew::${name} ALIAS sinew_${name})
  set_property(GLOBAL APPEND PROPERTY SINEW_LAYERS ${name})
  list(TRANSFORM L_HEADERS PREPEND ${inc}/sinew/${L_FOLDER}/)
  target_sources(sinew_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${inc} FILES ${L_HEADERS})
  target_link_libraries(sinew_${name} PUBLIC ${L_PUBLIC} PRIVATE ${L_PRIVATE})
  target_compile_features(sinew_${name} PUBLIC cxx_std_20)  # of programs that use an installed sinew too
  set_target_properties(sinew_${name} PROPERTIES
    EXPORT_NAME ${name}
    INSTALL_RPATH "$ORIGIN")
  if(NOT SINEW_BUILD_PYTHON)  # a Python package holds no links, so that a library there has one name
    set_target_properties(sinew_${name} PROPERTIES
      VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
  install(TARGETS sinew_${name} EXPORT sinew_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libsinew0 NAMELINK_COMPONENT libsinew-dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libsinew-dev)
endfunction()

# sinew_cold(TARGET..): compiles these targets with less optimisation, which takes less time. No hot path runs through them.
# Sanitizer builds compile them with -O0 and all other libraries with -O1, because tests of these libraries loop over much data.
function(sinew_cold)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:$<IF:$<CONFIG:Release>,-O1,-O0>>)
  endforeach()
endfunction()

# sinew_program(NAME SOURCES .. LINK targets..): a program in build/PRESET/bin
function(sinew_program name)
  cmake_parse_arguments(P "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${P_SOURCES})
  target_link_libraries(${name} PRIVATE ${P_LINK})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

# sinew_test(NAME SOURCES .. LINK targets.. [LABELS ..] [TIMEOUT s] [APART ..] [UNSANITIZED ..] [ONE_THREAD ..])
#   One GoogleTest program per layer.
#   APART     sources that are compiled alone, because they name their helpers as another source of the program does
#   Tests of the lower layers also run under the sanitizers: they get the label "sanitize" and are built by the target
#   sanitize_tests. LABELS release_only keeps one out of both sanitizer builds, no_tsan out of the thread sanitizer's.
#   UNSANITIZED lists patterns of --gtest_filter. Sanitizer builds leave these cases out, because other cases run the same
#   code. The thread sanitizer also leaves out the patterns of ONE_THREAD, and cases whose ranks are processes: it checks
#   the threads of one process.
#   LABELS exhaustive: only ./run exhaustive builds it (target exhaustive_tests) and runs it (ctest -C exhaustive).
#   LABELS portable: ./run aarch64 builds it (target portable_tests) and runs it under an emulator.
add_custom_target(sanitize_tests)
add_custom_target(portable_tests)
add_custom_target(exhaustive_tests)
function(sinew_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;APART;LINK;LABELS;UNSANITIZED;ONE_THREAD" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR T_TIMEOUT "10 * ${T_TIMEOUT}")  # an emulator runs it
  elseif(SINEW_SANITIZE)
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  if(folder MATCHES "^(c$|core|topology|transports|collectives|support)"
     AND NOT release_only IN_LIST T_LABELS AND NOT exhaustive IN_LIST T_LABELS
     AND NOT (SINEW_SANITIZE STREQUAL "thread" AND no_tsan IN_LIST T_LABELS))
    list(APPEND T_LABELS sanitize)
    add_dependencies(sanitize_tests ${name})
  endif()
  if(portable IN_LIST T_LABELS)
    add_dependencies(portable_tests ${name})
  endif()
  add_executable(${name} ${T_SOURCES} ${T_APART})
  set_source_files_properties(${T_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE ${T_LINK} sinew_test_support sinew_test_programs)
  add_dependencies(${name} sinew_modules)
  # GoogleTest's headers take longer to read than a test to compile: read once, by the first test program.
  if(name STREQUAL test_support)
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <chrono>
      <fstream> <functional> <map> <memory> <numeric> <optional> <random> <set> <span> <sstream> <string> <thread> <vector>)
  elseif(NOT exhaustive IN_LIST T_LABELS)
    target_precompile_headers(${name} REUSE_FROM test_support)
  endif()
  if(NOT exhaustive IN_LIST T_LABELS)  # what a test does beside calling a library takes longer to optimise than to run
    sinew_cold(${name})
  endif()
  set(when)
  if(exhaustive IN_LIST T_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(exhaustive_tests ${name})
    set(when CONFIGURATIONS exhaustive)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${when})
  # COST: ctest starts tests with a long time limit first. The report names each case, so that the last line of
  # `./run test` can count cases and show which were skipped.
  set(environment GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/results/${name}.xml)
  if(SINEW_SANITIZE STREQUAL "thread")
    list(APPEND T_UNSANITIZED *rocesses* ${T_ONE_THREAD})
  endif()
  if(SINEW_SANITIZE AND T_UNSANITIZED)
    list(JOIN T_UNSANITIZED ":" cases)
    list(APPEND environment GTEST_FILTER=-${cases})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} COST ${T_TIMEOUT} LABELS "${T_LABELS}" ENVIRONMENT "${environment}")
endfunction()
