#include <string>

#include <CLI/CLI.hpp>

#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/info/commands/commands.hpp>
#include <sinew/tools/version/version_text.hpp>

int main(int argc, char** argv) {
  sinew::tools::InfoOptions options;
  CLI::App app("Shows what this machine is made of and what sinew makes of it.", "sinew-info");
  app.set_version_flag("--version", sinew::tools::version_text());
  app.add_flag("--json", options.json, "Print JSON instead of text");
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.footer(
      "Without a command it shows the topology.\n\n"
      "Examples:\n"
      "  sinew-info topology                      processors, memory, PCI, GPUs, networks, and what cannot be seen\n"
      "  sinew-info topology --json               the same for scripts; every number says where it is from\n"
      "  sinew-info topology --from dgx-h100      another machine: by name, or a file of hwloc XML, NCCL or RCCL XML "
      "or JSON\n"
      "  sinew-info topology --svg box.svg        a picture for browsers, too; --dot box.dot for Graphviz\n"
      "  sinew-info transports                    which transports can be used here, and why not the others\n"
      "  sinew-info plan all_reduce 64MiB -n 4    what would run on 4 ranks of this host, and what each other way "
      "would take\n"
      "  sinew-info plan all_reduce 64MiB --cluster dgx-h100x8    the same on a cluster that need not be here\n"
      "  sinew-info plan all_reduce 64MiB --device --cluster dgx-h100x8    the same in the memory of its GPUs\n"
      "  sinew-run --hosts a:2,b:2 sinew-info doctor   what would fail or slow a job there, and what to do about it\n"
      "  sinew-info hang                          what a job of this host waits for, and for whom\n"
      "  sinew-info watch                         a table of the jobs of this host, refreshed each second\n"
      "  sinew-info trace records                 what every call of a job with SINEW_TRACE=records took, and who was "
      "late\n"
      "  sinew-info config                        every SINEW_* variable, what it takes and what is in effect\n");
  sinew::tools::add_topology_command(app, options);
  sinew::tools::add_transports_command(app, options);
  sinew::tools::add_plan_command(app, options);
  sinew::tools::add_config_command(app, options);
  int exit_code = 0;
  sinew::tools::add_doctor_command(app, options, exit_code);
  sinew::tools::add_hang_command(app, options, exit_code);
  sinew::tools::add_watch_command(app, options, exit_code);
  sinew::tools::add_trace_command(app, options, exit_code);
  for (CLI::App* command : app.get_subcommands({}))
    command->add_flag("--json", options.json, "Print JSON instead of text");
  app.callback([&] {
    if (app.get_subcommands().empty()) sinew::tools::print_topology(options);
  });
  return sinew::tools::run(
      app, argc, argv, [&] { return exit_code; }, sinew::tools::rank_of_process());
}
