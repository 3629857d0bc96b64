#include "real_cgroup.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include <sinew/core/system/file_text.hpp>

namespace sinew::test {
namespace {

namespace fs = std::filesystem;

constexpr int kPeriod_us = 100'000;

std::string text_in(const std::string& file) { return file_text(file).value_or(""); }

}  // namespace

RealCgroup::RealCgroup(const std::string& controller) {
  const std::string place = "/sys/fs/cgroup/";
  std::error_code absent;
  if (fs::exists(place + "cgroup.controllers", absent)) {
    unified_ = true;
    if (text_in(place + "cgroup.controllers").find(controller) == std::string::npos) {
      why_not_ = fmt::format("{}cgroup.controllers does not offer {}", place, controller);
      return;
    }
    try {
      if (text_in(place + "cgroup.subtree_control").find(controller) == std::string::npos) {
        write(place + "cgroup.subtree_control", "+" + controller);
      }
      if (make(place)) write(outer_ + "/cgroup.subtree_control", "+" + controller);
    } catch (const std::runtime_error& e) {
      why_not_ = e.what();
    }
  } else {
    make(place + controller + "/");
  }
}

bool RealCgroup::make(const std::string& parent) {
  outer_ = fmt::format("{}sinew-test-{}", parent, ::getpid());
  std::error_code error;
  if (fs::create_directory(outer_, error) && fs::create_directory(inner(), error)) return true;
  why_not_ = fmt::format("may not make {}: {}", inner(), error.message());
  return false;
}

RealCgroup::~RealCgroup() {
  std::error_code absent;
  fs::remove(inner(), absent);
  fs::remove(outer_, absent);
}

void RealCgroup::write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  if (!(out << text << std::flush))
    throw std::runtime_error(fmt::format("writing '{}' into {}: {}", text, file, std::strerror(errno)));
}

std::string RealCgroup::quota_file(const std::string& folder) const {
  return folder + (unified_ ? "/cpu.max" : "/cpu.cfs_quota_us");
}

void RealCgroup::limit_cpu(const std::string& folder, double cores) const {
  const int quota = static_cast<int>(cores * kPeriod_us);
  write(quota_file(folder), unified_ ? fmt::format("{} {}", quota, kPeriod_us) : std::to_string(quota));
}

void RealCgroup::limit_cpus(const std::string& folder, const std::string& list) const {
  write(folder + "/cpuset.cpus", list);
  if (!unified_) write(folder + "/cpuset.mems", "0");
}

void RealCgroup::enter() const { write(inner() + "/cgroup.procs", std::to_string(::getpid())); }

}  // namespace sinew::test
