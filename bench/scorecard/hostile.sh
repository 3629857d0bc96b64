# Strangers connect to the ports of two ranks while these sum over tcp: random bytes, half and replayed
# handshakes, announcements of 4 GiB, one byte now and then. HOSTILE_CONNECTIONS: another number than 10,000.
source bench/scorecard/lib/row.sh
source bench/scorecard/lib/certificates.sh

connections=${HOSTILE_CONNECTIONS:-10000}
# hostile_rows NAME WHAT: of a run in the environment as it is
hostile_rows() {
  local what="$connections connections of strangers, 250 a second, to the ports of two ranks that sum 64 KiB over tcp$2"
  "$bin/hostile" --connections "$connections" >"$scratch/hostile" || true
  figure() { jq -r "$1" "$scratch/hostile"; }
  row "$1_results" "$what: wrong sums, ended well" "0, true" "$(figure '"\(.wrong) of \(.calls), \(.well)"')" \
    "$(figure '.wrong == 0 and .well and .listeners == 2')"
  row "$1_rate" "$what: loss of calls per second beyond what the strangers' own work costs on the cores that they share with the ranks; medians over windows of 1 s in turns" \
    "<= 5 %" "$(figure '"\((.loss - .loss_by_their_own_work) * 1000 | round / 10) % (\(.loss * 1000 | round / 10) %, of which their own work \(.loss_by_their_own_work * 1000 | round / 10) %; quiet \(.quiet_calls_per_s) calls/s)"')" \
    "$(figure '.loss - .loss_by_their_own_work <= 0.05')"
  row "$1_memory" "$what: growth of the rank that grew most" "< 16 MiB" \
    "$(figure '"\(.growth_bytes / 1048576 * 10 | round / 10) MiB"')" "$(figure '.growth_bytes < 16777216')"
}
hostile_rows hostile ""
make_certificates "$scratch"
export SINEW_TLS=1 SINEW_TLS_CERTIFICATE=$scratch/rank.pem SINEW_TLS_KEY=$scratch/rank.key SINEW_TLS_CA=$scratch/authority.pem
hostile_rows hostile_tls " under TLS"
