# sinew_device_image(OUT SYMBOL SOURCE [LAYERS layer..] [DEPENDS file..]): compiles SOURCE for all devices with nvcc, and sets OUT to an
# assembly source that gives the image to a library as the array SYMBOL. SOURCE may include headers of LAYERS. The image has machine code for what is common, and an
# intermediate form for devices that come later.
function(sinew_device_image out symbol source)
  cmake_parse_arguments(I "" "" "LAYERS;DEPENDS" ${ARGN})
  set(image ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  set(roots)
  foreach(layer IN LISTS I_LAYERS)
    list(APPEND roots -I${PROJECT_SOURCE_DIR}/cmake/roots/${layer})
  endforeach()
  add_custom_command(OUTPUT ${image}
    COMMAND ${SINEW_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 -fatbin -Xfatbin -compress-all
      -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
      -gencode arch=compute_100,code=sm_100 -gencode arch=compute_100,code=compute_100
      ${roots} ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${image}
    DEPENDS ${source} ${I_DEPENDS} COMMENT "Building device kernels" VERBATIM)
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/kernels_image.S)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/device_image.S.in ${assembly} @ONLY)
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${image})
  set(${out} ${assembly} PARENT_SCOPE)
endfunction()
