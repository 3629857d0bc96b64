# Writes FILE, which says what a build was made of. SOURCE: the tree. PARTS: a file with the lines about transports and
# optional parts. COMMIT: given where the sources have no repository. An unchanged text leaves the file as it was.
set(commit "${COMMIT}")
if(NOT commit)
  find_program(GIT git)
  if(GIT AND EXISTS ${SOURCE}/.git)
    # The repository is named, so that no repository around the sources answers.
    execute_process(COMMAND ${GIT} --git-dir=${SOURCE}/.git --work-tree=${SOURCE} describe --always --abbrev=12 --dirty "--exclude=*"
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  string(REPLACE "-dirty" ", with changes" commit "${commit}")
endif()
if(NOT commit)
  set(commit "not known, because the sources had no repository")
endif()
file(STRINGS ${PARTS} parts)
list(JOIN parts "\\n" parts)
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT [[#pragma once

#define SINEW_COMMIT "@commit@"
#define SINEW_PARTS "@parts@"
]])
