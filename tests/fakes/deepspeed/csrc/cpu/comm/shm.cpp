#include <fcntl.h>
#include <sys/mman.h>
#include <torch/extension.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

// Stands for the file of DeepSpeed in tests of sinew-bench --peer: it has the functions that the module calls, and sums
// f32 of up to 64 KiB.
#define SHM_BUFFER_NAME "sinew_test_all_reduce"

namespace {

struct Shared {
  std::atomic<long> announced;
  std::atomic<long> read;
  float values[16 << 10];
};

std::vector<Shared*> all;
int own = 0;
long calls = 0;

Shared* map_segment(const std::string& name) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) abort();
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) abort();
  return static_cast<Shared*>(memory);
}

}  // namespace

void shm_initialize(int size, int rank, char* address, char* port) {
  own = rank;
  for (int r = 0; r < size; ++r)
    all.push_back(map_segment(std::string(SHM_BUFFER_NAME) + "_" + std::to_string(getuid()) + "_" + address + "_" +
                              port + "_" + std::to_string(r)));
}

void all_reduce_outer_loop(torch::Tensor& data, size_t count, int bytes) {
  auto* const values = static_cast<float*>(data.data_ptr());
  if (data.scalar_type() != c10::ScalarType::Float || bytes > static_cast<int>(sizeof(Shared::values))) abort();
  std::memcpy(all[static_cast<size_t>(own)]->values, values, static_cast<size_t>(bytes));
  all[static_cast<size_t>(own)]->announced = ++calls;
  std::vector<float> sum(count);
  for (Shared* const rank : all) {
    while (rank->announced < calls) usleep(1);
    for (size_t i = 0; i < count; ++i) sum[i] += rank->values[i];
  }
  std::memcpy(values, sum.data(), static_cast<size_t>(bytes));
  all[static_cast<size_t>(own)]->read = calls;
  for (Shared* const rank : all) {
    while (rank->read < calls) usleep(1);
  }
}
