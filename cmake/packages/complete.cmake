# CPack runs this before it makes the packages, when the files of each component are staged. Adds what Debian asks of a
# package beyond the files of an ordinary installation.
find_program(GZIP gzip REQUIRED)
find_program(PATCHELF patchelf REQUIRED)
find_program(PYTHON python3 REQUIRED)
set(here ${CMAKE_CURRENT_LIST_DIR})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The loader finds libraries in the system's folders by itself, and Debian allows no path to them in a file.
function(drop_run_path file)
  file(READ ${file} magic LIMIT 4 HEX)
  if(magic STREQUAL "7f454c46")
    run(${PATCHELF} --remove-rpath ${file})
  endif()
endfunction()

# Beside a Python module sinew looks for libraries, headers and programs in its own folder, where a wheel has them. Here they
# are links to the files of the other packages.
function(link_python_package usr)
  set(package ${usr}/lib/python3/dist-packages/sinew)
  if(NOT IS_DIRECTORY ${package})
    return()
  endif()
  file(GLOB libraries ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/libsinew0/usr/${CPACK_SINEW_LIBDIR}/libsinew*.so.*.*.*)
  file(MAKE_DIRECTORY ${package}/lib ${package}/bin ${package}/include)
  foreach(library IN LISTS libraries)
    get_filename_component(file ${library} NAME)
    string(REGEX REPLACE "\\.so\\..*" ".so" name ${file})
    file(RELATIVE_PATH way ${package}/lib ${usr}/${CPACK_SINEW_LIBDIR}/${file})
    file(CREATE_LINK ${way} ${package}/lib/${name} SYMBOLIC)
  endforeach()
  file(GLOB programs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/sinew-tools/usr/bin/sinew-*)
  foreach(program IN LISTS programs)
    get_filename_component(name ${program} NAME)
    file(CREATE_LINK ../../../../../bin/${name} ${package}/bin/${name} SYMBOLIC)
  endforeach()
  file(CREATE_LINK ../../../../../include/sinew ${package}/include/sinew SYMBOLIC)
  run(${PYTHON} ${here}/dist_info.py ${usr}/lib/python3/dist-packages ${CPACK_PACKAGE_VERSION})
endfunction()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  file(GLOB_RECURSE files ${usr}/bin/* ${usr}/lib/*)
  foreach(file IN LISTS files)
    if(NOT IS_SYMLINK ${file})
      drop_run_path(${file})
    endif()
  endforeach()
  link_python_package(${usr})
  file(GLOB pages ${usr}/share/man/man1/*.1)
  foreach(page IN LISTS pages)
    run(${GZIP} -9nf ${page})
  endforeach()
  # The folder in which Debian's zsh looks for what packages bring.
  if(IS_DIRECTORY ${usr}/share/zsh/site-functions)
    file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
  endif()
  set(documents ${usr}/share/doc/${component})
  file(COPY ${here}/copyright DESTINATION ${documents})
  file(WRITE ${documents}/changelog.Debian "sinew (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  run(${GZIP} -9nf ${documents}/changelog.Debian)
endforeach()
