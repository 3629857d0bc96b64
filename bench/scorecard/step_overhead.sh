# What the step graph costs the engine for each parameter and step, with exchanges that end at once.
source bench/scorecard/lib/row.sh

"$bin/step_overhead" >"$scratch/lines"
row step_overhead "scheduling of 1,000 parameters, per parameter and step, of ddp and zero3" "< 5 us" \
  "$(jq -rs 'map("\(.row) \(.us_per_parameter) us and \(.us_per_parameter_of_protocol) us for the order of calls") | join(", ")' "$scratch/lines")" \
  "$(jq -s 'map(.us_per_parameter + .us_per_parameter_of_protocol) | max < 5' "$scratch/lines")"
