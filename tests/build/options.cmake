# Every build option configures, and what cannot be had says what was asked, what was found and what to install.
#   expect(FRAGMENT option..): configures with the options; FRAGMENT must be in what it prints, "" means it must succeed
function(expect fragment)
  file(REMOVE_RECURSE ${WORK})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(FIND "${output}" "${fragment}" at)
  if((fragment STREQUAL "" AND NOT result EQUAL 0) OR at EQUAL -1)
    message(SEND_ERROR "${ARGN}: expected '${fragment}', found exit code ${result} and: ${output}")
  endif()
endfunction()

expect("" -DSINEW_BUILD_TESTS=OFF)
expect("" -DSINEW_BUILD_TESTS=OFF -DSINEW_BUILD_TOOLS=OFF)
if(PYTHON)  # the interpreter that has nanobind
  expect("" -DSINEW_BUILD_PYTHON=ON -DPython_EXECUTABLE=${PYTHON})
endif()
expect("PMIX: off, as asked" -DSINEW_BUILD_TESTS=OFF -DSINEW_ENABLE_PMIX=OFF)
expect("SINEW_ENABLE_PMIX=YES: expected AUTO, ON or OFF" -DSINEW_ENABLE_PMIX=YES)
expect("apt-get install libfmt-dev" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON)

# Without any .pc file but those of what is required.
set(pc ${WORK}.pc)
file(REMOVE_RECURSE ${pc})
file(MAKE_DIRECTORY ${pc})
find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)
foreach(module hwloc libhwy CLI11 openblas pugixml)
  execute_process(COMMAND ${PKG_CONFIG} --variable=pcfiledir ${module} OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(CREATE_LINK ${folder}/${module}.pc ${pc}/${module}.pc SYMBOLIC)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${pc})
expect("PMIX: no, apt-get install libpmix-dev" -DSINEW_BUILD_TESTS=OFF)
expect("SINEW_ENABLE_PMIX=ON, but it was not found: apt-get install libpmix-dev" -DSINEW_ENABLE_PMIX=ON)
set(ENV{PKG_CONFIG_LIBDIR} /nonexistent)
expect("apt-get install libhwloc-dev libhwy-dev libcli11-dev" -DSINEW_BUILD_TESTS=OFF)
