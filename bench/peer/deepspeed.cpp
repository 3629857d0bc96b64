#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

// Before it, deepspeed/torch/extension.h. The source is that of the installed DeepSpeed, unchanged.
#include <shm.cpp>

#include "peer.hpp"

/// The peer module of DeepSpeed's all-reduce between the ranks of a host, which its inference on CPUs uses: built from
/// this file and from csrc/cpu/comm/shm.cpp of an installation. The launcher sets RANK, WORLD_SIZE and MASTER_PORT.
namespace sinew::bench {
namespace {

struct State {
  int rank = 0;
  int size = 1;
  std::string address = "sinew-bench";
  std::string port;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::size_t count = 0;
  std::size_t bytes = 0;
};

State& state() {
  static State only;
  return only;
}

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text != nullptr && *text != '\0') return std::atoi(text);
  std::fprintf(stderr, "--peer: %s is not set; DeepSpeed's all-reduce expects ranks that sinew-run has started\n",
               variable);
  std::exit(1);
}

const char* name() { return "DeepSpeed"; }

/// Its threads are as many as the cores that a rank has to itself.
void start() {
  if (!__builtin_cpu_supports("avx512bw")) {
    std::fprintf(stderr, "--peer: DeepSpeed's all-reduce is compiled for AVX-512, which this CPU does not have\n");
    std::exit(1);
  }
  State& s = state();
  s.rank = number_of("RANK");
  s.size = number_of("WORLD_SIZE");
  s.port = std::to_string(number_of("MASTER_PORT"));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int usable = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  omp_set_num_threads(std::max(1, usable / s.size));
  shm_initialize(s.size, s.rank, s.address.data(), s.port.data());
}

void stop() {
  const State& s = state();
  const std::string segment = std::string(SHM_BUFFER_NAME) + "_" + std::to_string(getuid()) + "_" + s.address + "_" +
                              s.port + "_" + std::to_string(s.rank);
  shm_unlink(segment.c_str());
}

int rank() { return state().rank; }
int size() { return state().size; }

const char* prepare(PeerCall call, const char* dtype, const char* op, std::uint64_t count, const std::uint64_t*, int,
                    bool in_place) {
  State& s = state();
  const std::string_view type = dtype;
  if (call != PeerCall::AllReduce) return "this collective";
  if (std::string_view(op) != "sum") return "this operator";
  if (type != "bf16" && type != "f16" && type != "f32") return "this dtype";
  if (!in_place) return "a result beside its input, so use --in-place";
  s.dtype = type == "bf16" ? c10::ScalarType::BFloat16 : type == "f16" ? c10::ScalarType::Half : c10::ScalarType::Float;
  s.count = count;
  s.bytes = count * (type == "f32" ? 4 : 2);
  return s.bytes > 0x7fffffff ? "more than 2147483647 bytes" : nullptr;
}

void run(const void*, void* out) {
  const State& s = state();
  if (s.count == 0) return;
  torch::Tensor data(out, s.dtype);
  all_reduce_outer_loop(data, s.count, static_cast<int>(s.bytes));
}

void finish() {}
void settle() {}

constexpr Peer kPeer{kPeerAbi, name, start, stop, rank, size, nullptr, prepare, run, finish, settle};

}  // namespace
}  // namespace sinew::bench

extern "C" [[gnu::visibility("default")]] const sinew::bench::Peer* sinew_bench_peer() { return &sinew::bench::kPeer; }
