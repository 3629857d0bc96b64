# The suites that need a GPU: here, or packed into a folder for a machine that has one and nothing else.

# What tests and measures devices, of the programs of this build.
gpu_programs() {
  local program
  for program in test_cuda test_device_kernels test_cuda_ipc test_gpu_nccl device_bench device_nccl device_threads sinew-info sinew-bench sinew-run; do
    if [ -x "build/release/bin/$program" ]; then echo "$program"; fi
  done
}

need_driver() {
  if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
    die "$1: no CUDA driver here (libcuda.so.1 is not in the loader's path); ./run gpu-pack makes a folder for a machine that has one"
  fi
}

gpu_build() {
  need_packages bench build test
  configure release
  compile release
}

# The real driver: the fakes stand in folders that only ctest names.
run_gpu_test() {
  need_driver gpu-test
  gpu_build
  bash cmake/gpu/test.sh "$PWD/build/release"
}

run_gpu_bench() {
  need_driver gpu-bench
  gpu_build
  bash cmake/gpu/bench.sh "$PWD/build/release"
}

# The Python package, without an extension: the first use on the other machine compiles it for the torch that is there.
gpu_site() {
  local site=$1/site/sinew
  mkdir -p "$1/site"
  cp -r python/sinew "$site"
  find "$site" -name __pycache__ -prune -exec rm -r {} +
  cp -r "$1/whole/include" "$site/include"
  cp -rL /usr/include/fmt "$site/include/fmt"
  mkdir "$site/lib"
  # What pip writes, by which torch finds the backend.
  python3 cmake/packages/dist_info.py "$1/site" 0
  local library
  for library in collectives core cuda inproc shm tcp topology transports; do
    find "$1/whole" -name "libsinew_$library.so*" -exec cp -a {} "$site/lib/" ';'
  done
  cp -r "$(find "$1/whole" -name sinew-modules)" "$site/lib/"
  cmake -DSINEW_LIBRARIES="$(find "$site/lib" -maxdepth 1 -name 'libsinew_*.so' | paste -sd ';')" \
    -DCMAKE_INSTALL_PREFIX="$site" -P python/carry_libraries.cmake >/dev/null
  find "$site/lib" -maxdepth 1 -type f -exec patchelf --set-rpath '$ORIGIN' {} ';'
  patchelf --set-rpath '$ORIGIN/..' "$site"/lib/sinew-modules/*.so
}

# build/gpu-pack: bin, lib with our libraries and those of the distribution, site with the Python package, torch with its tests, test.sh and
# bench.sh.
run_gpu_pack() {
  gpu_build
  need_packages gpu
  local pack=$PWD/build/gpu-pack program library file
  rm -rf "$pack"
  cmake --install build/release --prefix "$pack/whole" --strip >/dev/null
  mkdir -p "$pack/bin" "$pack/lib"
  find "$pack/whole" \( -name 'libsinew_*.so.*' -o -name sinew-modules \) -exec cp -a {} "$pack/lib/" ';'
  gpu_site "$pack"
  rm -rf "$pack/whole"
  for program in $(gpu_programs); do
    cp "build/release/bin/$program" "$pack/bin/"
    strip "$pack/bin/$program"
  done
  # The C library and the loader belong to the machine that runs it; all else comes along.
  for file in "$pack"/bin/* "$pack"/lib/sinew-modules/*.so; do
    ldd "$file" | awk '$3 ~ /^\// && ($1 !~ /^libsinew_/ || $1 ~ /^libsinew_fake_/) { print $3 }'
  done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libcuda)\.so' | while read -r library; do
    cp -L "$library" "$pack/lib/"
  done
  for file in "$pack"/bin/*; do patchelf --set-rpath '$ORIGIN/../lib' "$file"; done
  for file in "$pack"/lib/*.so*; do
    if ! [ -L "$file" ]; then patchelf --set-rpath '$ORIGIN' "$file"; fi
  done
  for file in "$pack"/lib/sinew-modules/*.so; do patchelf --set-rpath '$ORIGIN/..' "$file"; done
  cp cmake/gpu/test.sh cmake/gpu/bench.sh "$pack/"
  cp -r tests/torch "$pack/torch"
  say "build/gpu-pack, $(du -sm "$pack" | cut -f 1) MiB: copy it, then ./test.sh and ./bench.sh"
}
