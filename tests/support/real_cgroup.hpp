#pragma once

#include <string>

namespace sinew::test {

/// A control group that the kernel enforces, with another in it, for as long as this object lives. What was put into
/// the inner one must have ended before. Works with both versions; where it may not make groups, `why_not` says why.
class RealCgroup {
 public:
  /// `controller`: "cpu" or "cpuset".
  explicit RealCgroup(const std::string& controller);
  ~RealCgroup();
  RealCgroup(const RealCgroup&) = delete;
  RealCgroup& operator=(const RealCgroup&) = delete;

  /// Empty: there is one.
  const std::string& why_not() const { return why_not_; }
  bool unified() const { return unified_; }
  std::string outer() const { return outer_; }
  std::string inner() const { return outer_ + "/inner"; }
  /// Throws std::runtime_error where the kernel refuses.
  static void write(const std::string& file, const std::string& text);
  /// Sets a quota for one of the two folders.
  void limit_cpu(const std::string& folder, double cores) const;
  /// The file that limit_cpu writes there.
  std::string quota_file(const std::string& folder) const;
  /// Allows the given CPUs in one of the two folders.
  void limit_cpus(const std::string& folder, const std::string& list) const;
  /// Moves the calling process into the inner group.
  void enter() const;

 private:
  bool make(const std::string& parent);

  bool unified_ = false;
  std::string outer_;
  std::string why_not_;
};

}  // namespace sinew::test
