# run(COMMAND..): its output is in `output`; anything but exit code 0 ends the test with it
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: exit code ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
