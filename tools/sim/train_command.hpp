#pragma once

namespace sinew::tools {

/// `sinew-sim train ARGS..`: reads what is behind "train" and prints a plan; the exit code.
int train_command(int argc, char** argv);

}  // namespace sinew::tools
