#include <hwy/highway.h>

#include <support/kernel_targets.hpp>

namespace sinew::test {
namespace {

void allow(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::int64_t> cpu_targets() {
  std::vector<std::int64_t> bits;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    bits.push_back(left & -left);
  }
  return bits;
}

std::string target_name(std::int64_t target) { return hwy::TargetName(target); }

OnlyTarget::OnlyTarget(std::int64_t target) { allow(target); }
OnlyTarget::~OnlyTarget() { allow(0); }

}  // namespace sinew::test
