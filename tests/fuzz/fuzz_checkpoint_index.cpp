#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

/// What is accepted is written, and read again, as it is: through the seal that fuzzing alone would not find.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinew::parallel;
  try {
    const CheckpointIndex index = index_from_json({reinterpret_cast<const char*>(data), size}, "file");
    const std::string text = to_text(index);
    if (to_text(index_from_text(text, "file")) != text) std::abort();
  } catch (const sinew::Error& error) {
    if (error.code() != sinew::Code::InvalidArgument || std::string_view(error.what()).empty()) std::abort();
  }
  return 0;
}
