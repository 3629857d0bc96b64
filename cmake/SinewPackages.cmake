# Debian packages by CPack's generator DEB. ./run packages makes and tests them. Every install rule names its package as its
# COMPONENT; a component that is not described here ends the configuration with an error.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_NAME sinew)
set(CPACK_PACKAGE_CONTACT "sinew maintainers <maintainers@sinew.example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has a description of its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_SINEW_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages/complete.cmake)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE sinew)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Here dpkg-shlibdeps finds sinew's own libraries. Dependencies on their package are written out below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

# The sources of the Python package belong to no ordinary installation: pip installs them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/sinew DESTINATION lib/python3/dist-packages COMPONENT python3-sinew
  EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)
if(TARGET sinew_python)  # the extension
  install(TARGETS sinew_python LIBRARY DESTINATION lib/python3/dist-packages/sinew COMPONENT python3-sinew EXCLUDE_FROM_ALL)
endif()

# sinew_package(NAME SECTION section TITLE title TEXT text [fields of CPACK_DEBIAN_NAME_PACKAGE_.. and their values])
#   TITLE  the first line of the description
#   TEXT   its other lines
#   CONTROL  files of cmake/packages for dpkg: triggers, and scripts that it runs
get_cmake_property(installed COMPONENTS)
set(described)
function(sinew_package name)
  cmake_parse_arguments(P "" "SECTION;TITLE;TEXT;DEPENDS;RECOMMENDS;SUGGESTS" "CONTROL" ${ARGN})
  set(described ${described} ${name} PARENT_SCOPE)
  if(NOT name IN_LIST installed)
    return()
  endif()
  string(TOUPPER ${name} id)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${id}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${id}_PACKAGE_SECTION ${P_SECTION} PARENT_SCOPE)
  string(REGEX REPLACE "(..................................................[^ ]*) " "\\1\n" text "${P_TEXT}")  # short lines
  set(CPACK_COMPONENT_${id}_DESCRIPTION "${P_TITLE}\n${text}" PARENT_SCOPE)
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    set(CPACK_DEBIAN_${id}_PACKAGE_${field} "${P_${field}}" PARENT_SCOPE)
  endforeach()
  list(TRANSFORM P_CONTROL PREPEND ${PROJECT_SOURCE_DIR}/cmake/packages/)
  set(CPACK_DEBIAN_${id}_PACKAGE_CONTROL_EXTRA "${P_CONTROL}" PARENT_SCOPE)
endfunction()

# Version 0 binds the ABI of C++ to the exact version, so that all packages of a job have one version.
set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENTS_ALL)
sinew_package(libsinew0 CONTROL triggers SECTION libs TITLE "communication layer for distributed training: libraries"
  TEXT "Collectives and messages between the processes of a job, over shared memory and TCP. Transports for UCX, libfabric and NCCL are in packages of their own."
  RECOMMENDS "libpmix2" SUGGESTS "libmunge2")
sinew_package(libsinew-dev SECTION libdevel TITLE "communication layer for distributed training: headers"
  TEXT "Headers, the CMake package and the files of pkg-config, for programs in C++ and C. The conformance suite for transports of others is part of it."
  DEPENDS "libsinew0 ${same}, libfmt-dev" SUGGESTS "libgtest-dev, libgmock-dev, sinew-tools")
sinew_package(sinew-tools SECTION utils TITLE "communication layer for distributed training: programs"
  TEXT "sinew-run starts the ranks of a job. sinew-bench measures collectives. sinew-info shows what a machine is made of, and what would run there. sinew-sim simulates clusters."
  DEPENDS "libsinew0 ${same}" SUGGESTS "sinew-ucx, sinew-ofi, sinew-nccl, sinew-bench-mpi")
sinew_package(sinew-bench-mpi SECTION utils TITLE "communication layer for distributed training: comparison with MPI"
  TEXT "The modules by which sinew-bench --peer mpi measures Open MPI and MPICH in the same processes."
  DEPENDS "sinew-tools ${same}")
sinew_package(sinew-ucx SECTION libs TITLE "communication layer for distributed training: transport ucx"
  TEXT "The module by which jobs communicate through UCX, for example over InfiniBand."
  DEPENDS "libsinew0 ${same}")
sinew_package(sinew-ofi SECTION libs TITLE "communication layer for distributed training: transport ofi"
  TEXT "The module by which jobs communicate through the providers of libfabric."
  DEPENDS "libsinew0 ${same}")
sinew_package(sinew-nccl SECTION libs TITLE "communication layer for distributed training: GPUs of NVIDIA"
  TEXT "The modules by which jobs exchange the memory of GPUs through NCCL and CUDA IPC. Both libraries come from NVIDIA, and are loaded where a job has a device."
  DEPENDS "libsinew0 ${same}" SUGGESTS "libnccl2")
find_package(Python3 QUIET COMPONENTS Interpreter)
math(EXPR next_minor "${Python3_VERSION_MINOR} + 1")  # an extension serves one minor version
sinew_package(python3-sinew CONTROL python/postinst python/prerm SECTION python TITLE "communication layer for distributed training: Python"
  TEXT "The Python package sinew, with its backend for PyTorch. The backend is compiled for the PyTorch that is there when it is used first, which needs libsinew-dev and a compiler."
  DEPENDS "libsinew0 ${same}, sinew-tools ${same}, python3 (>= ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}), python3 (<< ${Python3_VERSION_MAJOR}.${next_minor})"
  RECOMMENDS "python3-numpy" SUGGESTS "libsinew-dev, g++, python3-dev")
foreach(component IN LISTS installed)
  if(NOT component IN_LIST described)
    message(FATAL_ERROR "an install rule has the component ${component}; expected one of ${described} (cmake/SinewPackages.cmake)")
  endif()
endforeach()
include(CPack)

# What the packages need of the build; the tests need more.
add_custom_target(packaged)
get_property(packaged GLOBAL PROPERTY SINEW_LAYERS)
list(TRANSFORM packaged PREPEND sinew_)
foreach(program run bench info sim conformance)
  list(APPEND packaged sinew-${program} sinew-${program}_pages)
endforeach()
list(APPEND packaged sinew_modules sinew_peer_openmpi sinew_peer_mpich sinew_conformance sinew_faulty sinew_c sinew_python)
foreach(target IN LISTS packaged)
  if(TARGET ${target})
    add_dependencies(packaged ${target})
  endif()
endforeach()
