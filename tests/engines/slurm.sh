# A Slurm of three nodes on this machine; source it. Needs root, and Debian's slurmctld, slurmd, slurm-client, munge and iproute2.
#
#   need_slurm               exit code 77, with the reason, where it is not installed
#   start_slurm              slurmctld on the host "login", a slurmd on each of the hosts n0, n1, n2; returns when all nodes are idle
#   at_login COMMAND..       runs there, as in a user's shell. The nodes are hosts 0, 1, 2 of machine.sh
#   ${slurmd_of[NUMBER]}     the process of a node's slurmd
#   start_slurmd NUMBER      starts it again

# shellcheck source=tests/engines/machine.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/machine.sh"
slurm_nodes=3
slurmd_of=()

need_slurm() {
  local command
  for command in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge; do need_command "${command%:*}" "${command#*:}"; done
}

at_login() { in_node $slurm_nodes "$@"; }

slurm_configuration() {
  cat <<END
ClusterName=engines
SlurmctldHost=login
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
StateSaveLocation=$engines_home/state
SlurmdSpoolDir=$engines_home/spool.%n
SlurmctldPidFile=$engines_home/slurmctld.pid
SlurmdPidFile=$engines_home/slurmd.%n.pid
SlurmdParameters=config_overrides
SlurmdTimeout=5
KillWait=2
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[0-$((slurm_nodes - 1))] CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

start_slurmd() {
  "${enter[@]}" "${holder_of[$1]}" slurmd -D -N "n$1" >>"$engines_home/slurmd.n$1.log" 2>&1 &
  slurmd_of[$1]=$!
  disown
}

start_slurm() {
  local node tries
  start_hosts n0 n1 n2 login
  mkdir -p "$engines_home/state" /run/munge
  chmod 755 /run/munge
  export SLURM_CONF=$engines_home/slurm.conf
  slurm_configuration >"$SLURM_CONF"
  (umask 077 && head -c 1024 /dev/urandom >"$engines_home/munge.key")
  munged --force --foreground --key-file="$engines_home/munge.key" --seed-file="$engines_home/munge.seed" \
    --pid-file="$engines_home/munged.pid" --log-file="$engines_home/munged.log" >"$engines_home/munged.out" 2>&1 &
  for ((tries = 0; tries < 100; ++tries)); do
    if [ -S /run/munge/munge.socket.2 ]; then break; fi
    sleep 0.05
  done
  at_login slurmctld -D -c >"$engines_home/slurmctld.log" 2>&1 &
  for ((node = 0; node < slurm_nodes; ++node)); do
    start_slurmd $node
  done
  for ((tries = 0; tries < 600; ++tries)); do
    if [ "$(at_login sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -eq $slurm_nodes ]; then return; fi
    sleep 0.1
  done
  echo "Slurm's nodes were not all idle within 60 s" >&2
  show_logs
  return 1
}
