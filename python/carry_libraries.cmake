# At install: copies the libraries of third parties that SINEW_LIBRARIES need into the package, with their licences. With
# SINEW_LICENCES_ONLY it copies the licences alone, because auditwheel copies the libraries into a wheel. The package then works on machines
# without their Debian packages. Libraries that every Debian with Python has are left out, and python/sinew/_libraries.py
# names them where one is missing. OpenSSL is among them, because its security updates come from the system.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${SINEW_LIBRARIES}
  RESOLVED_DEPENDENCIES_VAR found
  PRE_EXCLUDE_REGEXES [[^libsinew_]] [[^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|ssl|crypto|udev|z)\.so]] [[^ld-linux]])
find_program(SINEW_DPKG_QUERY dpkg-query)
foreach(library IN LISTS found)
  get_filename_component(name ${library} NAME)
  get_filename_component(file ${library} REALPATH)
  if(NOT SINEW_LICENCES_ONLY)
    file(INSTALL ${file} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib RENAME ${name})
  endif()
  # Whoever passes on a library passes on its licence. Debian keeps it in the documentation of the library's package.
  set(package "")
  if(SINEW_DPKG_QUERY)
    execute_process(COMMAND ${SINEW_DPKG_QUERY} -S ${file} OUTPUT_VARIABLE package ERROR_QUIET)
    string(REGEX REPLACE "[:,].*" "" package "${package}")
  endif()
  if(package AND EXISTS /usr/share/doc/${package}/copyright)
    file(INSTALL /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_PREFIX}/licenses RENAME ${name}.txt)
  else()
    message(WARNING "${file} goes into the package without its licence: no Debian package here has the file. "
      "Do not pass this package on")
  endif()
endforeach()
