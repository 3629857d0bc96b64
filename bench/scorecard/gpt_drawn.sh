# gpt under layouts drawn by a seed over everything at once: all axes, schedules, ZeRO and replicas, recomputation, offload of
# activations, loss scaling with a planted overflow, scans and experts. The first step's gradients and the losses of three
# steps beside those of one process. A line of the program for each model. Also the size of the application, and of examples.
source bench/scorecard/lib/row.sh

"$bin/whole_gpt_layouts" --gtest_filter="AllDrawn.*" >"$scratch/out" || true
read -r models runs gradient loss routed < <(sed -nE 's/^layouts: ([0-9]+) runs, gradient ([^ ]+) \(.*\), loss ([^ ]+) \(.*\), routed ([0-9]+): drawn of .*$/\1 \2 \3 \4/p' "$scratch/out" | awk '
  { runs += $1; if ($2 > gradient) gradient = $2; if ($3 > loss) loss = $3; routed += $4 }
  END { print NR, runs + 0, gradient + 0, loss + 0, routed + 0 }')
row gpt_drawn_gradients "gpt, f64, layouts drawn over all axes, schedules, ZeRO, recomputation, offload, loss scaling: largest difference of a gradient of the first step from one process" \
  "<= 1e-12" "$gradient ($runs runs of $models models)" "$(jq -n "$runs == 800 and $gradient <= 1e-12 and $routed == 0")"
row gpt_drawn "the same: largest relative difference of a loss of 3 steps" \
  "<= 1e-12" "$loss ($runs runs of $models models)" "$(jq -n "$runs == 800 and $loss <= 1e-12 and $routed == 0")"

lines=$(git ls-files 'apps/gpt/*.cpp' 'apps/gpt/*.hpp' | xargs cat | wc -l)
row gpt_size "lines of the application gpt" "<= 2500" "$lines" "$(jq -n "$lines <= 2500")"
longest=$(git ls-files 'examples/modules/*.cpp' | xargs wc -l | grep -v total | sort -n | tail -1 | awk '{ print $1 }')
row examples_size "lines of the longest example of examples/modules" "<= 120" "$longest" "$(jq -n "$longest <= 120")"
