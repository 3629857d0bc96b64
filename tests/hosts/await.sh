# A wait that ends; source it.
#
#   await WHAT PROCESS COMMAND..   repeats the command until it ends well. Ends this shell if that takes a minute, or if PROCESS, a
#                                  child of this shell that is to bring it about, has ended before.

await() {
  local what=$1 process=$2 end=$((SECONDS + 60)) has_ended
  shift 2
  for (( ; ; )); do
    has_ended=false
    kill -0 "$process" 2>/dev/null || has_ended=true # asked first: the process may do its work and end meanwhile
    if "$@"; then return; fi
    if [ $has_ended = true ]; then
      echo "$what did not happen: process $process has ended" >&2
      exit 1
    fi
    if [ $SECONDS -ge "$end" ]; then
      echo "$what did not happen within 60 s" >&2
      exit 1
    fi
    sleep 0.05
  done
}
