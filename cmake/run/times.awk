# Reads .ninja_log (v5: start end mtime output hash, in ms) and prints compile and link seconds per target.
NR > 1 {
  seconds = ($2 - $1) / 1000
  target = $4
  if (match(target, /[^\/]+\.dir\//)) target = substr(target, RSTART, RLENGTH - 5)
  else sub(/.*\//, "", target)
  if (($4, $5) in seen) next
  seen[$4, $5] = 1
  total[target] += seconds
}
END { for (target in total) if (total[target] >= 0.05) printf "%8.1f  build  %s\n", total[target], target }
