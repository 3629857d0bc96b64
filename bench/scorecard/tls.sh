# What TLS costs two ranks that sum over tcp, in a World with it and in one without, in turns in the same processes.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/certificates.sh

make_certificates "$scratch"
"$bin/sinew-run" -n 2 "$bin/tls_cost" --certificate "$scratch/rank.pem" --key "$scratch/rank.key" \
  --ca "$scratch/authority.pem" --json "$scratch/tls" >&2
figure() { jq -r "$1" "$scratch/tls"; }
row tls_latency "all_reduce of 8 bytes over tcp: what TLS adds" "<= 10 us" \
  "$(figure '."8B" | "\((.tls_us - .plain_us) * 10 | round / 10) us on \(.plain_us | round)"')" \
  "$(figure '."8B" | .tls_us - .plain_us <= 10')"
row tls_bandwidth "all_reduce of 64 MiB over tcp: TLS's time / plain's" "<= 8" \
  "$(figure '."64MiB" | .tls_us / .plain_us * 100 | round / 100')" "$(figure '."64MiB" | .tls_us / .plain_us <= 8')"
row tls_handshake "both ends of a connection's handshake, proofs of the secret included, of one core" "<= 5 ms" \
  "$(figure '"\(.handshake_ms * 100 | round / 100) ms"')" "$(figure '.handshake_ms <= 5')"
