# One rank computes for a minute and another is stopped for half of it: the others are told who is late, and all end well.
# LATE_SECONDS: another time than a minute.
source bench/scorecard/lib/row.sh

ranks=4
computes=${LATE_SECONDS:-60}
stopped=$((computes / 2))
late=("$bin/late" --computes "$computes" --stopped "$stopped")

# late_row NAME WHERE
late_row() {
  local told well
  told=$(jq -s 'map(select(.told)) | length' "$scratch/late")
  well=$(jq -s 'map(select(.well)) | length' "$scratch/late")
  row "$1" "$2: a rank computes for $computes s, another is stopped for $stopped s: told who is late, ended well" \
    "$ranks and $ranks of $ranks" "$told and $well of $ranks" "$(jq -n "$told == $ranks and $well == $ranks")"
}

sinew_run -n $ranks "${late[@]}" >"$scratch/late" || true
late_row late "one host"
status=0
tests/hosts/run.sh --launcher "$PWD/$bin/sinew-run" --ranks 2,2 "$PWD/${late[0]}" "${late[@]:1}" >"$scratch/prefixed" || status=$?
if [ $status -eq 77 ]; then
  row late_two_hosts "two hosts: the same" "$ranks and $ranks of $ranks" "not measured: $(cat "$scratch/prefixed")" false
else
  sed 's/^\[[0-9]*\] //' "$scratch/prefixed" >"$scratch/late"
  late_row late_two_hosts "two hosts"
fi
