# A transport outside of the tree, as a stranger would add it: installs the build into a folder of its own, builds
# examples/transport against it, runs the installed conformance suite over the module, and then jobs that use it.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/mailbox_conformance)
string(REGEX MATCH "\\[  PASSED  \\][^\n]*" passed "${output}")
message(STATUS "conformance: ${passed}")

# What cannot be had says so.
function(refused fragment)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/refused -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(FIND "${output}" "${fragment}" at)
  if(result EQUAL 0 OR at EQUAL -1)
    message(SEND_ERROR "${ARGN}: expected '${fragment}', found exit code ${result} and: ${output}")
  endif()
endfunction()
file(GLOB_RECURSE suite ${WORK}/prefix/*/libsinew_conformance.a)
file(REMOVE ${suite})
refused("installed before its target sinew_conformance was built, so it has no conformance suite" -D CMAKE_PREFIX_PATH=${WORK}/prefix)
file(GLOB_RECURSE suite ${WORK}/prefix/*/sinew_conformance_targets.cmake)
file(REMOVE ${suite})
refused("built without its tests (SINEW_BUILD_TESTS=OFF), so it has no conformance suite" -D CMAKE_PREFIX_PATH=${WORK}/prefix)

if(NOT SINEW_RUN)
  return()
endif()
unset(ENV{GTEST_OUTPUT})
set(ENV{SINEW_TRANSPORT_PATH} ${WORK}/build)
foreach(ranks 2 3)
  run(${SINEW_RUN} -n ${ranks} ${SINEW_CONFORMANCE} --transport mailbox --largest 256KiB)
  message(STATUS "${output}")
endforeach()
