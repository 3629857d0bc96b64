# At install: copies the libraries of third parties that SINEW_LIBRARIES need into the package, so that it works on a machine
# without their Debian packages. Left out is what every Debian with Python has (python/sinew/_libraries.py names these).
# OpenSSL among them gets its security updates from the system.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${SINEW_LIBRARIES}
  RESOLVED_DEPENDENCIES_VAR found
  PRE_EXCLUDE_REGEXES [[^libsinew_]] [[^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|ssl|crypto|udev|z)\.so]] [[^ld-linux]])
foreach(library IN LISTS found)
  get_filename_component(name ${library} NAME)
  get_filename_component(file ${library} REALPATH)
  file(INSTALL ${file} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib RENAME ${name})
endforeach()
