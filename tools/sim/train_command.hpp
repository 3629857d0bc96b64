#pragma once

namespace CLI {
class App;
}

namespace sinew::tools {

/// `sinew-sim train ARGS..`: reads the arguments behind "train" and prints a plan. Returns the exit code.
int train_command(int argc, char** argv);

/// Adds "train" as a sub command that is only shown, for the pages about sinew-sim.
void add_train_command(CLI::App& app);

}  // namespace sinew::tools
