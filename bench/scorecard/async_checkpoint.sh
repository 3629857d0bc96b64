# What an asynchronous checkpoint adds to the step that it adds most to, beside the time of a synchronous one, in turns.
source bench/scorecard/lib/row.sh

sinew_run -n 1 "$bin/async_checkpoint" --folder "$scratch/one" --mib 192 --row ddp | tee /dev/stderr >"$scratch/line"
row async_checkpoint "192 MiB of parameters and Adam's state: stall of the worst step over the time of a synchronous save, medians of 5 turns" \
  "<= 0.05, of 0.2 s or more" \
  "$(jq -r '"\(.stall_of_sync) (stall \(.stall_s) s, synchronous \(.sync_s) s, step \(.step_s) s)"' "$scratch/line")" \
  "$(jq '.stall_of_sync <= 0.05 and .sync_s >= 0.2 and .steps_in_flight > 1' "$scratch/line")"
