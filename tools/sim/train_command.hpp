#pragma once

namespace sinew::tools {

/// `sinew-sim train ARGS..`: reads the arguments behind "train" and prints a plan. Returns the exit code.
int train_command(int argc, char** argv);

}  // namespace sinew::tools
