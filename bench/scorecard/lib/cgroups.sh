# Two nested control groups for CPU quotas, which need root. Sourced after row.sh.

# make_groups: sets outer and inner, folders of the groups; without them no_groups says why there are none
make_groups() {
  no_groups=''
  cgroup_top=/sys/fs/cgroup
  unified=false
  if [ -e $cgroup_top/cgroup.controllers ]; then
    unified=true
    if ! echo +cpu 2>"$scratch/refused" >$cgroup_top/cgroup.subtree_control; then
      no_groups="no CPU controller in $cgroup_top"
      return
    fi
  else
    cgroup_top=$cgroup_top/cpu
  fi
  outer=$cgroup_top/sinew-scorecard-$$
  inner=$outer/inner
  if ! no_groups=$(mkdir "$outer" "$inner" 2>&1); then return; fi
  trap 'remove_groups; rm -rf "$scratch"' EXIT
  # What else runs on this machine shall not look like a quota.
  if $unified; then
    echo +cpu >"$outer/cgroup.subtree_control"
    echo 10000 >"$outer/cpu.weight"
  else
    echo 262144 >"$outer/cpu.shares"
  fi
}

remove_groups() {
  rmdir "$inner" "$outer"
}

# limit FOLDER CORES: "none" lifts the quota
limit() {
  local us=-1
  [ "$2" = none ] || us=$(jq -n "$2 * 100000")
  if ! $unified; then
    echo "$us" >"$1/cpu.cfs_quota_us"
  elif [ "$us" = -1 ]; then
    echo max >"$1/cpu.max"
  else
    echo "$us 100000" >"$1/cpu.max"
  fi
}

# limit_both OUTER INNER: version 1 allows no more within than outside, at any moment
limit_both() {
  limit "$inner" none
  limit "$outer" "$1"
  limit "$inner" "$2"
}

# in_inner COMMAND..: runs it in the inner group
in_inner() {
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$inner" "$@"
}

# as_root_group COMMAND..: runs it in the inner group, which it sees as the top of the hierarchy
as_root_group() {
  in_inner unshare --mount bash -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$inner" "$cgroup_top" "$@"
}
