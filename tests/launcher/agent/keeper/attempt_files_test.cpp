// The directories of an attempt on disk, and what the agent after this one finds there.
#include "launcher/agent/keeper/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace fs = std::filesystem;

namespace {

struct AttemptOnDisk {
  FakeRoot folder;
  AttemptLayout layout = [this] {
    RunDirectory run;
    run.home = folder.path();
    run.controller = "c";
    run.node = NodeId{"n"};
    run.path = folder.path() + "/run/c/n";
    return layout_of(run, {JobId{"job"}, AttemptId{2}});
  }();
  std::string below(const std::string& path) const {
    return fs::relative(path, folder.path()).string();
  }
};

unsigned mode_of_file(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

}  // namespace

TEST_CASE("what the code has as outputs and logs moves to where it lasts, and is found as before") {
  AttemptOnDisk disk;
  disk.folder.write("/" + disk.below(disk.layout.code) + "/outputs/old", "from the snapshot");
  disk.folder.write("/" + disk.below(disk.layout.code) + "/outputs/both", "from the snapshot");
  disk.folder.write("/" + disk.below(disk.layout.outputs) + "/both", "from a rank");
  disk.folder.write("/" + disk.below(disk.layout.code) + "/main.py", "code");
  REQUIRE(prepare_code(disk.layout));
  for (const char* name : {"outputs", "logs"}) {
    CHECK(fs::is_symlink(disk.layout.code + "/" + name));
    CHECK(fs::is_directory(disk.layout.code + "/" + name));
  }
  CHECK(text_of_file(disk.layout.outputs + "/old") == "from the snapshot");
  CHECK(text_of_file(disk.layout.code + "/outputs/both") == "from a rank");
  CHECK(text_of_file(disk.layout.code + "/main.py") == "code");
  REQUIRE(prepare_code(disk.layout));  // once more
  CHECK(text_of_file(disk.layout.outputs + "/old") == "from the snapshot");
}

TEST_CASE("directories that cannot be made are an error that names them") {
  AttemptOnDisk disk;
  disk.folder.write("/jobs", "a file");
  const Status made = prepare_code(disk.layout);
  REQUIRE_FALSE(made);
  CHECK_THAT(made.error().message, ContainsSubstring("create the directory " + disk.layout.job));
}

TEST_CASE("a rank finds its directories: those of outputs too, be they folders or files") {
  AttemptOnDisk disk;
  StartRanks start;
  start.outputs["model"];
  start.outputs["file"].type = DataType::uri_file;
  start.outputs["far"];
  const std::string out = disk.folder.path() + "/out";
  const DataPaths paths{
      {}, {{"model", out + "/model"}, {"file", out + "/some/file"}, {"far", "azureml://x"}}};
  REQUIRE(prepare_attempt(start, disk.layout, paths));
  CHECK(fs::is_directory(out + "/model"));
  CHECK(fs::is_directory(out + "/some"));
  CHECK_FALSE(fs::exists(out + "/some/file"));
  CHECK(fs::is_directory(disk.layout.spool + "/vitals"));
  CHECK(fs::is_directory(disk.layout.checkpoints));
  CHECK(mode_of_file(disk.layout.spool) == 0700);
  start.checkpoint_path = disk.folder.path() + "/shared/ckpt";
  REQUIRE(prepare_attempt(start, disk.layout, paths));
  CHECK(fs::is_directory(disk.folder.path() + "/shared/ckpt"));
}

TEST_CASE("what was requested is known to the next agent, and what was not whole is not") {
  AttemptOnDisk disk;
  CHECK_FALSE(load_start(disk.layout));
  StartRanks start;
  start.job = JobId{"job"};
  start.command = "train";
  start.environment = {{"SECRET", "s"}};
  const Status away = save_start(disk.layout, start);
  REQUIRE_FALSE(away);
  CHECK_THAT(away.error().message, ContainsSubstring("start.frame"));
  const std::string path = disk.layout.spool + "/start.frame";
  fs::create_directories(disk.layout.spool);
  REQUIRE(save_start(disk.layout, start));
  CHECK(mode_of_file(path) == 0600);
  const auto loaded = load_start(disk.layout);
  REQUIRE(loaded);
  CHECK(loaded->command == "train");
  CHECK(loaded->environment.at("SECRET") == "s");
  fs::resize_file(path, fs::file_size(path) - 1);
  CHECK_FALSE(load_start(disk.layout));
  std::ofstream(path) << std::string(64, '\xff');
  CHECK_FALSE(load_start(disk.layout));
}

TEST_CASE("the attempts of a run directory are those that have a spool there") {
  AttemptOnDisk disk;
  const std::string root = fs::path(disk.layout.spool).parent_path().parent_path();
  CHECK(attempts_below(root).empty());
  for (const char* name : {"/a/0", "/a/12", "/b/1"}) fs::create_directories(root + name);
  auto keys = attempts_below(root);
  std::ranges::sort(keys);
  CHECK((keys == std::vector<AttemptKey>{{JobId{"a"}, AttemptId{0}},
                                         {JobId{"a"}, AttemptId{12}},
                                         {JobId{"b"}, AttemptId{1}}}));
}

TEST_CASE("a control group that an agent noted is known while it is there, with all below it") {
  const FakeRoot folder;
  const std::string spool = folder.path() + "/spool", group = folder.path() + "/group";
  folder.write("/spool/other", "");
  CHECK_FALSE(AttemptGroup::noted(spool));
  folder.write("/spool/group", group);  // torn: its end is missing
  folder.write("/group/cgroup.procs", "17\n0\n18\n");
  CHECK_FALSE(AttemptGroup::noted(spool));
  folder.write("/spool/group", group + "\n");
  const auto noted = AttemptGroup::noted(spool);
  REQUIRE(noted);
  CHECK(noted->path() == group);
  folder.write("/group/below/cgroup.procs", "19\n");
  fs::create_directory_symlink(folder.path() + "/elsewhere", folder.path() + "/group/link");
  folder.write("/elsewhere/cgroup.procs", "20\n");
  CHECK(noted->members() == std::set<pid_t>{17, 18, 19});
  folder.write("/group/cgroup.kill", "0");
  noted->kill();
  CHECK(text_of_file(folder.path() + "/group/cgroup.kill") == "1");
  fs::remove_all(group);
  CHECK_FALSE(AttemptGroup::noted(spool));
}

TEST_CASE("bytes that are written below a directory show, in new files and old, not in links") {
  const FakeRoot folder;
  CHECK(written_below({folder.path() + "/absent"}).bytes == 0);
  folder.write("/a/one", "12345");
  const WrittenBytes before = written_below({folder.path()});
  CHECK(before.bytes == 5);
  CHECK(before.newest_ns > 0);
  CHECK_FALSE(written_below({folder.path()}).is_beyond(before));
  folder.write("/b/c/two", "123");
  const WrittenBytes after = written_below({folder.path()});
  CHECK(after.bytes == 8);
  CHECK(after.is_beyond(before));
  CHECK_FALSE(before.is_beyond(after));
  fs::create_symlink(folder.path() + "/a/one", folder.path() + "/link");
  CHECK(written_below({folder.path()}).bytes == 8);
  // In place, while another goes.
  const std::int64_t later_s = after.newest_ns / 1'000'000'000 + 1000;
  const timespec later[2] = {{later_s, 0}, {later_s, 7}};
  REQUIRE(::utimensat(AT_FDCWD, folder.below("/a/one").c_str(), later, 0) == 0);
  fs::remove(folder.below("/b/c/two"));
  const WrittenBytes changed = written_below({folder.path()});
  CHECK(changed.bytes == 5);
  CHECK(changed.newest_ns == later_s * 1'000'000'000 + 7);
  CHECK(changed.is_beyond(after));
}

TEST_CASE(
    "logs hold no stop up, nor what a program writes into its outputs that is no checkpoint") {
  const FakeRoot folder;
  folder.write("/ckpt/train.log", "1");
  folder.write("/ckpt/events.out.tfevents.1.h01", "12");
  folder.write("/outputs/data.jsonl", "123");
  folder.write("/outputs/table.parquet", "1234");
  folder.write("/outputs/data.bin", "1234");
  folder.write("/outputs/x.tmp", "1234");
  const auto bytes = [&] {
    return written_below({folder.below("/ckpt"), folder.below("/outputs")}).bytes;
  };
  CHECK(bytes() == 0);
  folder.write("/ckpt/own.state", "12345");
  CHECK(bytes() == 5);
  folder.write("/outputs/checkpoint-5/model.safetensors", "123456");
  folder.write("/outputs/checkpoint-5/.tmpAbCdEf", "1");
  folder.write("/outputs/step/__0_0.distcp", "1");
  folder.write("/outputs/last.ckpt", "1");
  CHECK(bytes() == 14);
}
