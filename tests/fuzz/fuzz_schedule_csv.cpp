#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>

/// What is accepted is written, and read again, as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinew::parallel;
  try {
    const PipelineSchedule schedule = from_csv({reinterpret_cast<const char*>(data), size}, "file");
    if (from_csv(to_csv(schedule), "file") != schedule) std::abort();
  } catch (const sinew::Error& error) {
    if (error.code() != sinew::Code::InvalidArgument || std::string_view(error.what()).empty()) std::abort();
  }
  return 0;
}
