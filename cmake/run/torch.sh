# ./run torch: the Python package in an environment with PyTorch. Runs PyTorch's own suite of distributed tests, PyTorch's
# strategies beside Gloo, the faults that users report against CPU backends, the examples, and ranks that are killed.
# ./run exhaustive adds more ranks, and packages that people use on top of PyTorch.

torch_imports() { (cd build/torch && bin/python -c 'import torch.testing._internal.common_distributed, expecttest, hypothesis' >import.log 2>&1); }

# The environment build/torch, with torch. No GPU is used, but torch's wheel needs CUDA's libraries.
make_torch_environment() {
  if torch_imports; then return; fi
  say "installing torch into build/torch"
  python3 -m venv build/torch
  local pip=(build/torch/bin/python -m pip install --quiet --no-deps)
  mapfile -t packages < <(python_packages torch && python_packages torch_cuda)
  "${pip[@]}" "${packages[@]}" >&2
  if torch_imports; then return; fi
  say "installing CUDA's libraries for torch: this machine has none of version 13"
  mapfile -t packages < <(python_packages cuda)
  "${pip[@]}" "${packages[@]}" >&2
  torch_imports || { cat build/torch/import.log >&2; return 1; }
}

# The folder site-packages of build/torch
torch_site() { build/torch/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# install_wheel: makes the wheel with the extension for that torch, and installs it. ./run package does what pip does with
# the sources.
install_wheel() {
  ./run wheel --torch "$(torch_site)" >&2 || return 1
  say "installing the wheel into build/torch"
  build/torch/bin/python -m pip install --quiet --no-deps --no-index --force-reinstall build/dist/*.whl >&2
}

# The environment build/torch_ecosystem: packages on top of PyTorch, beside all that build/torch has. One that cannot be
# installed is missing, so that its tests are skipped with this reason.
make_ecosystem_environment() {
  local python=build/torch_ecosystem/bin/python package
  say "installing packages that use PyTorch into build/torch_ecosystem"
  python3 -m venv build/torch_ecosystem
  torch_site >"$(echo build/torch_ecosystem/lib/python3*/site-packages)/torch.pth"
  while read -r package; do
    DS_BUILD_OPS=0 "$python" -m pip install --quiet --no-deps "$package" >&2 || say "$package cannot be installed"
  done < <(python_packages ecosystem)
}

# torch_step NAME COMMAND..: a program whose lines begin with passed, failed, hung or skipped, each for one test.
torch_step() {
  local name=$1 log=build/torch/$1.log status=0
  shift
  say "torch: $name"
  CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1 timeout 1500 "$@" >"$log" 2>&1 || status=$?
  awk -v name="torch $name" '
    $1 ~ /^(passed|failed|hung|skipped)$/ {
      outcome = $1 == "hung" ? "failed" : $1
      at = match($0, /[(:]/)
      test = at ? substr($0, 1, at - 1) : $0
      sub(/^[a-z]+ +([0-9.]+ s +)?/, "", test)
      sub(/ +([0-9.]+ s)? *$/, "", test)
      reason = at ? substr($0, at + 1) : ""
      if (substr($0, at, 1) == "(") sub(/\)$/, "", reason)
      printf "%s\t%s\t%s\t%s\n", outcome, name, test, reason
    }' "$log" >>"$test_rows"
  if [ $status -ne 0 ]; then
    tail -n 40 "$log" >&2
    step_row failed "torch $name" "exit code $status; $log has the rest"
  fi
}

# torch_suite_step RANKS [options of suite.py]
torch_suite_step() {
  # It compares the backend's name with the text of an enum, which is "custom" for every backend outside of PyTorch.
  local impossible=test_ddp_logging_data_cpu
  torch_step "suite of $1" "$PWD/build/torch/bin/python" tests/torch/suite.py --backend sinew --without $impossible \
    --world-size "$@"
}

# The program that the README prints for PyTorch, by its commands
torch_readme_step() {
  local folder=build/torch/readme
  say "torch: the README's program"
  rm -rf "$folder"
  # torchrun's ranks write the text and the end of a line on their own, so that two lines may come as one.
  if tests/readme/take.sh README.md train.py "$folder" && (cd "$folder" && CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1 \
    PATH=$OLDPWD/build/torch/bin:$PATH timeout 120 bash run.sh) >"$folder.log" 2>&1 &&
    [ "$(grep -oE 'rank [01] of 2: [0-9]+\.[0-9]+' "$folder.log" | sort -u | wc -l)" = 2 ]; then
    step_row passed "torch README"
  else
    cat "$folder.log" >&2
    step_row failed "torch README" "expected a line of each of 2 ranks; see above"
  fi
}

# torch_steps RANKS
torch_steps() {
  local python=$PWD/build/torch/bin/python example
  torch_suite_step "$1"
  torch_step "strategies of $1" "$python" tests/torch/strategies.py --backend sinew --world-size "$1"
  torch_step "torchrun of $1" "$python" tests/torch/strategies.py --backend sinew --world-size "$1" --torchrun
  torch_step "reports of $1" "$python" tests/torch/reports.py --backend sinew --world-size "$1" \
    --info "$PWD/build/release/bin/sinew-info"
  for example in examples/torch/*.py; do
    say "torch: $example"
    if CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1 timeout 120 build/torch/bin/torchrun --nproc-per-node "$1" \
      --rdzv-backend c10d --rdzv-endpoint localhost:0 "$example" >build/torch/example.log 2>&1; then
      step_row passed "torch $example of $1"
    else
      cat build/torch/example.log >&2
      step_row failed "torch $example of $1" "see above"
    fi
  done
}

# kills_step TRIALS: ranks that are killed, stopped or make another call at random moments
kills_step() { torch_step kills "$PWD/build/torch/bin/python" tests/torch/kills.py --backend sinew --trials "$1"; }

# What takes too long for every change: more ranks, and packages on top of PyTorch.
torch_exhaustive_steps() {
  local ranks
  for ranks in 3 4; do torch_steps "$ranks"; done
  kills_step 100
  torch_suite_step 8 --only 'group|object|monitored|barrier' # the rest shows nothing that 4 ranks do not show
  make_ecosystem_environment
  export TORCH_EXTENSIONS_DIR=$PWD/build/torch_ecosystem/extensions # where DeepSpeed compiles one of its own
  for ranks in 2 4; do
    torch_step "ecosystem of $ranks" "$PWD/build/torch_ecosystem/bin/python" tests/torch/ecosystem.py \
      --backend sinew --world-size "$ranks"
  done
}

run_torch() {
  local ranks=2 install=false
  case ${1:-} in
    '') ;;
    --ranks) ranks=${2:?torch: --ranks needs a number} ;;
    --install) install=true ;;
    *) die "torch: there is no option '$1'; expected --ranks N or --install" ;;
  esac
  need_packages bench build package
  mkdir -p build
  test_rows=$PWD/build/torch_rows.tsv
  test_times=$PWD/build/torch_times.txt
  : >"$test_rows"
  : >"$test_times"
  make_torch_environment
  install_wheel
  if $install; then return; fi
  torch_steps "$ranks"
  torch_readme_step
  kills_step 6
  report
}
