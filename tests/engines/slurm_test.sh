#!/usr/bin/env bash
# slurm_test.sh CASE PROGRAMS: runs jobs under a real Slurm of three nodes, and judges what they print. PROGRAMS is the folder of
# roll_call, sinew-conformance, sinew-run and gpt. Exit code 77, with the reason, where there can be no Slurm.
set -euo pipefail
case=$1 programs=$(realpath -- "$2")
# shellcheck source=tests/engines/slurm.sh
source "$(dirname -- "$0")/slurm.sh"
need_slurm
enter_own_machine "$0" "$@"
start_slurm
cd "$engines_home"
export SINEW_TIMEOUT=30s
umask 077 # secrets
head -c 32 /dev/urandom >"$engines_home/secret"

# runs COMMAND..: at login; it must end well. What it prints is in $said.
runs() {
  at_login "$@" >"$said" 2>&1 || wrong "'$*' ended with code $?"
}

# fails COMMAND..: at login; it must not end well.
fails() {
  if at_login "$@" >"$said" 2>&1; then wrong "'$*' ended well"; fi
}

# wait_for WHAT COMMAND..: until the command ends well
patience_s=90
wait_for() {
  local what=$1 end=$((SECONDS + patience_s))
  shift
  until "$@"; do
    [ $SECONDS -lt "$end" ] || wrong "$what did not happen within $patience_s s"
    sleep 0.1
  done
}

# batch OPTION..: submits the script that comes on standard input; prints the job's number
batch() { at_login sbatch --parsable "$@"; }
job_has_ended() { at_login scontrol show job "$1" | grep -qE "JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) "; }
ends_well() {
  wait_for "the end of job $1" job_has_ended "$1"
  at_login scontrol show job "$1" | grep -q "JobState=COMPLETED " || wrong "job $1 has failed"
}
printed() { grep -qsE -- "$2" "$1"; }

three_nodes=(-N3 -n6 --ntasks-per-node=2)
on_three='6 ranks on 3 hosts \(n0:2 n1:2 n2:2\), sums right$'
tiny_gpt=("$programs/gpt" --steps 3 --layers 2 --heads 2 --width 32 --context 32 --batch 6)

# whole_job OPTION..: the same programs under srun with these options
whole_job() {
  runs srun "${three_nodes[@]}" "$@" "$programs/roll_call"
  says 1 "$on_three"
  runs srun "${three_nodes[@]}" "$@" "$programs/sinew-conformance" --largest 1KiB
  says 1 '^all ranks: [1-9][0-9]* calls on 6 ranks, wrong 0$'
  says 1 '^odd ranks, reversed: [1-9][0-9]* calls on 3 ranks, wrong 0$'
  runs srun "${three_nodes[@]}" "$@" "${tiny_gpt[@]}" --tp 2
  says 1 '^layout     6 ranks: tp 2, cp 1, dp 3,'
  same_loss "$(loss)"
}

# The loss of the last step that gpt has printed, and whether it is that of a single process
loss() { sed -nE 's/^step +2 loss ([0-9.]+) .*/\1/p' "$said"; }
same_loss() {
  runs env SINEW_ALONE=1 "${tiny_gpt[@]}"
  awk -v a="$1" -v b="$(loss)" 'BEGIN { exit !(a > 1 && b > 1 && a - b < 0.001 && b - a < 0.001) }' ||
    wrong "gpt ended with the loss '$1' on 6 ranks: expected '$(loss)' as on one"
}

# A training that ends and starts again: its losses after that must be those of one that nothing has disturbed.
long_gpt=("$programs/gpt" --layers 2 --heads 2 --width 32 --context 32 --batch 6 --dtype f64 --seed 3 --steps)
# long_training STEPS OPTION..: submits it, with three hosts of two ranks; prints the job's number
long_training() {
  local steps=$1
  shift
  batch "${three_nodes[@]}" --requeue --open-mode=append -o "$said" "$@" <<END
#!/bin/sh
echo "restart \${SLURM_RESTART_COUNT:-0}"
status=0
srun --mpi=pmi2 --kill-on-bad-exit=0 ${long_gpt[*]} $steps --tp 2 --save $PWD/saved --save-every 50 --resume $PWD/saved || status=\$?
if [ \$status -eq 75 ]; then exec scontrol requeue \$SLURM_JOB_ID; fi
exit \$status
END
}
# goes_on STEPS: the training has started twice, the second time at a checkpoint, and ended with the right loss
goes_on() {
  local after
  printed "$said" '^restart 1' || wrong "the job has not started again"
  after=$(sed -n '/^restart 1/,$p' "$said")
  grep -qE '^going on with step [1-9]' <<<"$after" || wrong "the second start did not go on from a checkpoint"
  last_loss <"$said" >"$said.loss"
  env SINEW_ALONE=1 "${long_gpt[@]}" "$1" >"$said.alone"
  awk -v a="$(cat "$said.loss")" -v b="$(last_loss <"$said.alone")" 'BEGIN { exit !(a > 0 && a == b) }' ||
    wrong "it ended with the loss '$(cat "$said.loss")': expected '$(last_loss <"$said.alone")' as without a disturbance"
}
# hold_training NUMBER: stops a rank of the job after the first checkpoint, so that the training does not end before it is disturbed. On
# a slow machine the signal of the time limit may come before. Then no rank is stopped.
hold_training() {
  held=''
  wait_for "the stop of a rank after the first checkpoint" is_held "$1"
}
is_held() {
  local process
  if [ -n "$held" ] && [ -e "/proc/$held" ]; then
    is_stopped
    return
  fi
  if printed "$said" '^restart 1' || job_has_ended "$1"; then return; fi
  has_checkpoint || return 1
  for process in $(ip netns pids "$name-0"); do
    [ "$(cat "/proc/$process/comm" 2>/dev/null)" = gpt ] || continue
    held=$process
    kill -STOP "$held" 2>/dev/null || true
    break
  done
  return 1
}
is_stopped() { grep -qs '^State:[[:space:]]*T' "/proc/$held/status"; }
# Slurm may send SIGCONT with the signal.
held_is_asked_to_end() {
  if ! is_stopped; then return; fi
  (((0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$held/status") & 1 << 14) != 0))
}
has_checkpoint() { [ -n "$(find saved -name 'step*' 2>/dev/null)" ]; }
last_loss() { sed -nE 's/^step +[0-9]+ loss ([0-9.]+) .*/\1/p' | tail -n 1; }

needs_pmix() {
  at_login srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
}

# until_signal OPTION..: starts a job in the background that goes on until it is told to end, and waits for all its ranks
until_signal() {
  : >"$said"
  at_login srun "${three_nodes[@]}" "$@" "$programs/roll_call" --until-signal >"$said" 2>&1 &
  job=$!
  wait_for "the start of all 6 ranks" all_started
}
started_in() { [ "$(grep -sc '^roll_call: .* is process ' "$1")" -eq "$2" ]; }
all_started() { started_in "$said" 6; }
all_started_in() { started_in "$1" 6; }
all_started_twice() { started_in "$said" 12; }
listens_on() { in_node 0 ss -ltnH "sport = :$1" | grep -q LISTEN; }
process_of() { sed -nE "s/^roll_call: rank $1 of 6 is process ([0-9]+) on .*/\1/p" "$said"; }

nothing_left() {
  local node
  for ((node = 0; node < slurm_nodes; ++node)); do
    wait_for "the end of all ranks on n$node" no_rank "$node"
    [ -z "$(in_node "$node" find /dev/shm /tmp -name '*sinew*')" ] || wrong "files are left in /dev/shm or /tmp of n$node"
  done
}
no_rank() {
  local process
  for process in $(ip netns pids "$name-$1"); do
    if [ "$(cat "/proc/$process/comm" 2>/dev/null)" = roll_call ]; then return 1; fi
  done
}

# killed_rank OPTION..: all others name the rank that was killed
killed_rank() {
  local victim
  until_signal "$@"
  victim=$(process_of 2)
  kill -9 "$victim"
  if wait $job; then wrong "srun ended well although rank 2 was killed"; fi
  says 5 "^roll_call: .*: rank 2 \(host n1, process $victim\) ended: killed by signal 9 \(Killed\)"
  nothing_left
}

# absent_rank OPTION..: rank 3 ends before it makes a World
absent_rank() {
  # shellcheck disable=SC2016
  SINEW_TIMEOUT=4s fails srun "${three_nodes[@]}" --kill-on-bad-exit=0 "$@" sh -c '[ $SLURM_PROCID -eq 3 ] || exec "$0"' "$programs/roll_call"
}

case $case in
  pmi2) whole_job --mpi=pmi2 ;;
  pmix)
    needs_pmix
    whole_job --mpi=pmix
    ;;
  none)
    SINEW_SECRET_FILE=$engines_home/secret whole_job --mpi=none
    runs srun -N1 -n4 --mpi=none "$programs/roll_call" # no secret
    says 1 '4 ranks on 1 hosts \(n0:4\), sums right$'
    ;;
  by_munge) # Slurm's own authentication carries the secret
    runs srun "${three_nodes[@]}" --mpi=none "$programs/roll_call"
    says 1 "$on_three"
    ;;
  no_secret) # and no munge within the ranks' reach
    # shellcheck disable=SC2016
    fails srun "${three_nodes[@]}" --mpi=none unshare -m sh -c 'mount -t tmpfs tmpfs /run/munge && exec "$0"' "$programs/roll_call"
    says 6 '^roll_call: .*start them with srun --mpi=pmix or srun --mpi=pmi2'
    ;;
  control) # the judge of the other cases
    runs srun -N3 -n5 --mpi=pmi2 "$programs/roll_call"
    if (says 1 "$on_three") 2>/dev/null; then wrong "5 ranks were taken for 6"; fi
    if (fails srun -N1 true) 2>/dev/null; then wrong "a job that ended well was taken for one that failed"; fi
    if (runs srun -N1 false) 2>/dev/null; then wrong "a job that failed was taken for one that ended well"; fi
    ;;
  other_user)
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${user[@]}" test -x "$programs/roll_call" || skip "no other user can reach $programs"
    runs "${user[@]}" srun "${three_nodes[@]}" --mpi=pmi2 "$programs/roll_call"
    says 1 "$on_three"
    ;;
  many)
    runs srun -N3 -n48 --mpi=pmi2 "$programs/roll_call"
    says 1 '48 ranks on 3 hosts \(n0:16 n1:16 n2:16\), sums right$'
    ;;
  heterogeneous)
    runs srun --mpi=pmi2 -N1 -n2 "$programs/roll_call" : -N2 -n4 --ntasks-per-node=2 "$programs/roll_call"
    says 1 "$on_three"
    ;;
  batch)
    number=$(batch "${three_nodes[@]}" -o "$said" <<END
#!/bin/sh
srun --mpi=pmi2 "$programs/roll_call"
END
    )
    ends_well "$number"
    says 1 "$on_three"
    ;;
  array) # three jobs at once on the same nodes
    number=$(SINEW_SECRET_FILE=$engines_home/secret batch "${three_nodes[@]}" --array=0-2 -o "$said.%a" <<END
#!/bin/sh
srun --mpi=none "$programs/roll_call" --until-signal
END
    )
    for index in 0 1 2; do wait_for "the start of job $index" all_started_in "$said.$index"; done
    at_login scancel --signal=USR1 "$number"
    for index in 0 1 2; do
      ends_well "${number}_$index"
      cat "$said.$index" >>"$said"
    done
    says 3 '6 ranks on 3 hosts \(n0:2 n1:2 n2:2\), sums right, ended by a signal after [1-9][0-9]* sums$'
    ;;
  requeue)
    number=$(SINEW_SECRET_FILE=$engines_home/secret batch "${three_nodes[@]}" --open-mode=append --requeue -o "$said" <<END
#!/bin/sh
echo "restart \${SLURM_RESTART_COUNT:-0}"
srun --mpi=none "$programs/roll_call" --until-signal
END
    )
    wait_for "the start of the job" all_started
    at_login scontrol requeue "$number"
    wait_for "the second start of the job" printed "$said" '^restart 1'
    wait_for "the second start of all ranks" all_started_twice
    at_login scancel --signal=USR1 "$number"
    ends_well "$number"
    says 1 '6 ranks on 3 hosts \(n0:2 n1:2 n2:2\), sums right, ended by a signal after [1-9][0-9]* sums$'
    ;;
  sinew_run_rsh) # by a program of the user's
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'host=$1; shift' 'exec srun --overlap -N1 -n1 -w "$host" sh -c "$*"' >rsh
    chmod +x rsh
    number=$(SINEW_RSH=$PWD/rsh batch "${three_nodes[@]}" -o "$said" <<END
#!/bin/sh
"$programs/sinew-run" "$programs/roll_call"
END
    )
    ends_well "$number"
    says 1 "$on_three"
    ;;
  sinew_run) # nodes have no sshd
    number=$(batch "${three_nodes[@]}" -o "$said" <<END
#!/bin/sh
"$programs/sinew-run" "$programs/roll_call"
END
    )
    ends_well "$number"
    says 1 "$on_three"
    ;;
  twice_none)
    SINEW_SECRET_FILE=$engines_home/secret runs srun "${three_nodes[@]}" --mpi=none sh -c '"$0" --linger && "$0"' "$programs/roll_call"
    says 2 "$on_three"
    ;;
  twice_pmi2)
    runs srun "${three_nodes[@]}" --mpi=pmi2 sh -c '"$0" --linger && "$0"' "$programs/roll_call"
    says 2 "$on_three"
    ;;
  twice_pmix)
    needs_pmix
    runs srun "${three_nodes[@]}" --mpi=pmix sh -c '"$0" --linger && "$0"' "$programs/roll_call"
    says 2 "$on_three"
    ;;
  killed_rank_pmi2) killed_rank --mpi=pmi2 ;;
  killed_rank_pmix)
    needs_pmix
    killed_rank --mpi=pmix
    ;;
  killed_rank_none) SINEW_SECRET_FILE=$engines_home/secret killed_rank --mpi=none ;;
  killed_slurmd) # Slurm takes the node for dead after SlurmdTimeout, and ends the job
    until_signal --mpi=pmi2
    kill -9 "${slurmd_of[2]}"
    if wait $job; then wrong "srun ended well although a slurmd was killed"; fi
    printed "$said" '^srun: error: Node failure on n2$' || wrong "srun does not name the node"
    nothing_left
    ;;
  training_time_limit) # SIGTERM comes some time before the limit; the script puts the job into the queue again
    number=$(SINEW_TIMEOUT=120s long_training 1500 -t 1 --signal=TERM@55)
    hold_training "$number"
    wait_for "SIGTERM" held_is_asked_to_end
    if [ -n "$held" ]; then kill -CONT "$held" 2>/dev/null || true; fi
    ends_well "$number"
    goes_on 1500
    printed "$said" '^a signal asks for the end' || wrong "gpt does not say why it ended"
    ;;
  training_lost_node) # Slurm puts the job into the queue again by itself
    number=$(SINEW_TIMEOUT=120s long_training 1500)
    hold_training "$number"
    kill -9 "${slurmd_of[2]}"
    wait_for "the end of the first start" printed "$engines_home/slurmctld.log" "[Rr]equeu.*JobId=$number"
    start_slurmd 2
    ends_well "$number"
    goes_on 1500
    ;;
  absent_rank_none)
    SINEW_SECRET_FILE=$engines_home/secret absent_rank --mpi=none
    says 5 '^roll_call: .*rank 3 of 6 did not come within 4 s'
    ;;
  absent_rank_pmix)
    needs_pmix
    absent_rank --mpi=pmix
    says 5 '^roll_call: .*rank 3 of 6 did not come within 4 s'
    ;;
  absent_rank_pmi2)
    absent_rank --mpi=pmi2
    says 5 '^roll_call: .*before the deadline: ranks did not come'
    ;;
  variables_pmix | variables_none) # set by hand, as scripts for PyTorch do
    if [ "$case" = variables_pmix ]; then needs_pmix; fi
    # shellcheck disable=SC2016
    runs srun "${three_nodes[@]}" --mpi="${case#variables_}" \
      sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=n0 MASTER_PORT=29500 exec "$0"' "$programs/roll_call"
    says 1 "$on_three"
    ;;
  port_taken)
    in_node 0 python3 -c 'import socket, time; s = socket.create_server(("", 29511)); time.sleep(60)' &
    wait_for "a listener on port 29511" listens_on 29511
    SINEW_SECRET_FILE=$engines_home/secret MASTER_PORT=29511 runs srun "${three_nodes[@]}" --mpi=none "$programs/roll_call"
    says 1 "$on_three"
    ;;
  *) echo "slurm_test.sh: no case '$case'" >&2; exit 2 ;;
esac
