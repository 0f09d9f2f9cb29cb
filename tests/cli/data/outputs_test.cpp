// What becomes of a job's outputs when they are collected, and of the data that it had mounted.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/data/catalogue.h"
#include "cli/data/stores.h"
#include "launcher/os/fd.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

namespace muster {
namespace {

const JobId job{"j"};

class OutputSite {
  Folder folder_;

 public:
  OutputSite() {
    std::filesystem::create_directories(home.job(job));
    store.remote = "local";
    store.path = (folder_.path() / "store").string();
  }
  void has(const JobData& data) const { REQUIRE(save_job_data(home.job(job), data)); }
  std::size_t versions(const char* name) const {
    return Catalogue(home, Catalogue::Kind::data).versions(name).size();
  }

  Home home{folder_.path()};
  DatastoreSpec store{"dir", DatastoreType::rclone};
};

}  // namespace

TEST_CASE("an output is registered once, however often that is begun") {
  const OutputSite site;
  site.has({{}, {{"model", {}, "net"}}, {}});
  REQUIRE(finish_outputs(site.home, job, false));
  CHECK(site.versions("net") == 0);
  REQUIRE(finish_outputs(site.home, job, true));
  REQUIRE(finish_outputs(site.home, job, true));
  CHECK(site.versions("net") == 1);
}

TEST_CASE("outputs that cannot be looked at are not taken for none") {
  const OutputSite site;
  JobOutput output{"model", {site.store, "out", false}};
  output.uri = "azureml://datastores/dir/paths/out";
  site.has({{}, {output}, {}});
  CHECK(finish_outputs(site.home, job, true));  // the job has left none
  std::filesystem::create_symlink("outputs", site.home.outputs(job));
  const Status done = finish_outputs(site.home, job, true);
  REQUIRE(!done);
  CHECK(mentions(done.error().message, "outputs/model"));
}

TEST_CASE("outputs are finished by one process at a time") {
  const OutputSite site;
  site.has({{}, {{"model", {}, "net"}}, {}});
  const auto file = site.home.job(job) / "upload.lock";
  Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(finish_outputs(site.home, job, true) ? 0 : 1);
  for (int i = 0; i < 20 && site.versions("net") == 0; ++i) ::usleep(10'000);
  CHECK(site.versions("net") == 0);
  REQUIRE(::flock(lock.get(), LOCK_UN) == 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(site.versions("net") == 1);
}

TEST_CASE("data that cannot be listed again are not taken for unchanged") {
  const OutputSite site;
  site.has({{{"images", "0123", {site.store, "nowhere", false}}}, {}, {}});
  const std::string images[] = {"images"};
  const Status same = check_streamed(site.home, job, images);
  REQUIRE(!same);
  CHECK(mentions(same.error().message, "it is not known whether the data of input 'images'"));
  CHECK(check_streamed(site.home, job, {}));  // what was staged was verified
}

}  // namespace muster
