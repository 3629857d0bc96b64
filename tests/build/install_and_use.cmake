# Installs the build into a folder of its own. Builds and runs tests/build/consumer and tests/build/c_consumer against it,
# each once through find_package(sinew) and once through pkg-config. Then looks at the SONAMEs.
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

# The same in C.
set(c_source ${CMAKE_CURRENT_LIST_DIR}/c_consumer)
run(${CMAKE_COMMAND} -S ${c_source} -B ${WORK}/c_cmake -G ${GENERATOR} -D CMAKE_C_COMPILER=${CC} -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_C_FLAGS=${FLAGS} -D EXPECTED_VERSION=${VERSION} -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
run(${CMAKE_COMMAND} --build ${WORK}/c_cmake)
run(${WORK}/c_cmake/c_consumer ${VERSION})
message(STATUS "find_package, C: ${output}")
run(${PKG_CONFIG} --cflags --libs sinew-c)
separate_arguments(flags UNIX_COMMAND "${output} ${FLAGS}")
run(${CC} -std=c11 ${c_source}/main.c -o ${WORK}/c_by_pkg_config ${flags} -Wl,-rpath,${prefix}/${LIBDIR})
run(${WORK}/c_by_pkg_config ${VERSION})
message(STATUS "pkg-config, C: ${output}")

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

# The C library has a version of its own, and shows functions of C alone, all under one version node.
set(library ${prefix}/${LIBDIR}/libsinew.so.0)
run(${READELF} -d ${library})
if(NOT output MATCHES "SONAME[^\n]*\\[libsinew.so.0\\]")
  message(FATAL_ERROR "${library}: expected the SONAME libsinew.so.0, found\n${output}")
endif()
run(${READELF} --dyn-syms --wide ${library})
string(REGEX MATCHALL "[^\n]* (GLOBAL|WEAK) +DEFAULT +[0-9]+ [^\n]*" shown "${output}")
list(LENGTH shown count)
foreach(symbol IN LISTS shown)
  if(NOT symbol MATCHES " (sinew_[a-z_]*@@SINEW_0|SINEW_0)$")
    message(FATAL_ERROR "${library}: it shows a symbol that is no function of the C API:\n${symbol}")
  endif()
endforeach()
if(count LESS 50)
  message(FATAL_ERROR "${library}: it shows ${count} symbols, expected those of the C API:\n${output}")
endif()
