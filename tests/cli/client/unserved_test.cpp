// What a list says of jobs that nobody looks after. A controller cannot be started here: this
// program, called as one, is none.
#include "cli/client/start.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "launcher/controller/main.h"
#include "scheduler/text/duration.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

struct UnservedHome {
  UnservedHome() {
    auto opened = Store::open(folder.path(), Store::Mode::read_write);
    REQUIRE(opened);
    store = std::move(*opened);
  }

  void job(const std::string& name, std::optional<Milliseconds> lease = {}, bool resumed = false) {
    const Time submitted = now - days(1);
    JobSubmitted begun;
    begun.job = JobId{name};
    begun.target.lease = lease;
    std::vector<Record> records{{submitted, Observation{begun}}};
    if (resumed) {
      ResumeRequested again;
      again.job = JobId{name};
      again.target.lease = Milliseconds{600'000};
      records.push_back({submitted, Observation{again}});
    }
    JobRow row;
    row.name = name;
    row.state = "Running";
    row.submitted_at = submitted;
    REQUIRE(store->append(records, {row}));
  }
  // When the controller that is not there was last seen.
  Time last_seen(Milliseconds ago) const {
    const Time seen = from_ms(to_ms(now - ago) / 1000 * 1000);
    std::ofstream(Home{folder.path()}.lock()).close();
    const timespec times[2] = {{to_ms(seen) / 1000, 0}, {to_ms(seen) / 1000, 0}};
    REQUIRE(::utimensat(AT_FDCWD, Home{folder.path()}.lock().c_str(), times, 0) == 0);
    return seen;
  }
  // On stderr.
  std::string said(bool only_show_errors = false) const {
    const auto rows = store->jobs({});
    REQUIRE(rows);
    CommonOptions common;
    common.only_show_errors = only_show_errors;
    const std::string path = (folder.path() / "said").string();
    {
      const CaughtStream caught(STDERR_FILENO, path);
      serve_unfinished({folder.path()}, *store, *rows, common);
    }
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  Folder folder;
  std::unique_ptr<Store> store;
  Time now = wall_clock_now();
};

}  // namespace

TEST_CASE("of jobs that have all ended nobody asks who serves them") {
  UnservedHome home;
  home.job("over");
  JobRow row = **home.store->job({"over"});
  row.ended_at = home.now;
  REQUIRE(home.store->append({}, {row}));
  home.last_seen(days(1));
  CHECK(home.said() == "");
}

TEST_CASE("a state directory that no controller ever served is only read") {
  UnservedHome home;
  home.job("a");
  CHECK(home.said() == "muster: no controller serves job a from here\n");
  CHECK(home.said(true) == "");
  for (const char* name : {"b", "c", "d", "e"}) home.job(name);
  CHECK_THAT(home.said(), ContainsSubstring("no controller serves 5 unfinished jobs (") &&
                              !ContainsSubstring("…"));
  home.job("f");
  CHECK_THAT(home.said(), ContainsSubstring("no controller serves 6 unfinished jobs (") &&
                              ContainsSubstring(", …) from here"));
  CHECK_FALSE(std::filesystem::exists(Home{home.folder.path()}.log()));
}

TEST_CASE("since when nobody serves is told, and until when ranks may run") {
  UnservedHome home;
  home.job("a", Milliseconds{60'000});
  const Time lately = home.last_seen(Milliseconds{30'000});
  const std::string running = home.said();
  CHECK_THAT(running, ContainsSubstring("no controller has served job a since " +
                                        local_text(lately) + " ("));
  CHECK_THAT(running, ContainsSubstring("ranks end by " + local_text(lately + Seconds{60} +
                                                                     controller_sign_of_life)));
  CHECK_THAT(running, ContainsSubstring("and none can be started: the controller ended with"));

  const Time long_ago = home.last_seen(Milliseconds{3'600'000});
  CHECK_THAT(home.said(),
             ContainsSubstring("ranks ended with their leases by " +
                               local_text(long_ago + Seconds{60} + controller_sign_of_life)));
  home.job("b", Milliseconds{120'000});  // the longest lease counts, of a resumed job the latest
  CHECK_THAT(home.said(),
             ContainsSubstring(local_text(long_ago + Seconds{120} + controller_sign_of_life)));
  home.job("c", Milliseconds{1000}, true);
  CHECK_THAT(home.said(true),
             ContainsSubstring(local_text(long_ago + Seconds{600} + controller_sign_of_life)));
}
