#include "footprint.hpp"

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sinew::soak {

Footprint footprint_now() {
  malloc_trim(0);
  Footprint now;
  std::int64_t all_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> now.resident_bytes;
  now.resident_bytes *= sysconf(_SC_PAGESIZE);
  now.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

}  // namespace sinew::soak
