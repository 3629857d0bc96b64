#pragma once

#include <string>
#include <vector>

#include "metrics.hpp"

namespace gpt {

/// A drawing (SVG) of the losses of these steps, one at least. Losses that are no numbers are left out.
std::string loss_plot(const std::vector<StepReport>& reports, const std::string& title);

}  // namespace gpt
