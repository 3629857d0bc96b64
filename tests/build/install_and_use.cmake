# Installs the build into a folder of its own and builds and runs tests/build/consumer against it, once through
# find_package(sinew) and once through pkg-config; then looks at the SONAMEs.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/cmake -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_FLAGS=${FLAGS} -D EXPECTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${WORK}/cmake)
run(${WORK}/cmake/consumer ${VERSION})
message(STATUS "find_package: ${output}")

find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --cflags --libs sinew)
separate_arguments(flags UNIX_COMMAND "${output} ${FLAGS}")
run(${CXX} ${SOURCE}/main.cpp -o ${WORK}/by_pkg_config ${flags} -Wl,-rpath,${prefix}/${LIBDIR})
run(${WORK}/by_pkg_config ${VERSION})
message(STATUS "pkg-config: ${output}")

find_program(READELF NAMES readelf REQUIRED)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" abi ${VERSION})
file(GLOB libraries ${prefix}/${LIBDIR}/libsinew_*.so)
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  run(${READELF} -d ${library})
  if(NOT output MATCHES "SONAME[^\n]*\\[${name}\\.${abi}\\]")
    message(FATAL_ERROR "${library}: expected the SONAME ${name}.${abi}, found\n${output}")
  endif()
  # A program may hold another Boost.Asio, which must not meet this one.
  run(${READELF} --dyn-syms --wide ${library})
  if(output MATCHES "[^\n]*5boost[^\n]*")
    message(FATAL_ERROR "${library}: it shows a symbol of Boost, core/hidden_symbols.map should hide it:\n${CMAKE_MATCH_0}")
  endif()
endforeach()
