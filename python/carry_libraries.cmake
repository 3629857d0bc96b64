# At install: copies the libraries of third parties that SINEW_LIBRARIES need into the package. It then works on machines
# without their Debian packages. Libraries that every Debian with Python has are left out, and python/sinew/_libraries.py
# names them where one is missing. OpenSSL is among them, because its security updates come from the system.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${SINEW_LIBRARIES}
  RESOLVED_DEPENDENCIES_VAR found
  PRE_EXCLUDE_REGEXES [[^libsinew_]] [[^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|ssl|crypto|udev|z)\.so]] [[^ld-linux]])
foreach(library IN LISTS found)
  get_filename_component(name ${library} NAME)
  get_filename_component(file ${library} REALPATH)
  file(INSTALL ${file} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib RENAME ${name})
endforeach()
