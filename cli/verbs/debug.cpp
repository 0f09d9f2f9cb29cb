// `muster debug JOB --rank R`: what to type, or to give to VS Code, to debug a running rank. Found
// on its node by debug.sh, as muster exec would run it.
#include "cli/client/exec_session.h"
#include "cli/client/start.h"
#include "cli/verbs/verbs.h"

namespace muster {

namespace {

struct DebugOptions {
  NodePlace place;
  std::string with = "gdb";
};

int debug_rank(const DebugOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  Exec request = request_at(options.place, home);
  request.rank = request.rank.value_or(RankId{0});
  request.argv = {"sh",        "-c", std::string(debug_script()), "debug", request.job.value,
                  options.with};
  auto client = or_end(ensure_controller(home, common));
  return ExecSession(std::move(client), {}, common).run(request);
}

}  // namespace

void add_debug(CommandLine& line) {
  line.verb<DebugOptions>(
      {"debug", "Find a rank's process for gdb or debugpy: muster debug JOB --rank 3"}, debug_rank,
      [](Arguments& of, DebugOptions& options) {
        of.argument("JOB", options.place.job, "Job name, or the beginning of one");
        of.offer("JOB", {.words = {}, .unfinished_jobs = true});
        of.option("--rank", options.place.rank, "The rank (default 0)");
        of.choice("--with", options.with, {"gdb", "debugpy"},
                  "Default: gdb; debugpy can end the program");
      });
}

}  // namespace muster
