// Where other programs' checkpoints are looked for, within which limits, and what is renamed.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "tests/catch.h"
#include "tests/launcher/agent/foreign_checkpoints/saved_files.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr std::int64_t at_any_time = 4'000'000'000'000;

std::optional<ForeignCheckpoint> newest(const SavedFiles& saved) {
  return newest_foreign_checkpoint({saved.path()}, {});
}

}  // namespace

TEST_CASE("the latest complete one counts, whatever its number") {
  SavedFiles saved;
  saved.put("ckpt_900.pt", torch_bytes());
  saved.put("ckpt_100.pt", torch_bytes());  // the program went back
  CHECK(newest(saved)->step == 100);
  saved.put("ckpt_110.pt", torch_bytes().substr(0, 50));
  CHECK(newest(saved)->step == 100);
  CHECK(foreign_checkpoints({saved.path()}, {}).size() == 3);
}

TEST_CASE("links, pipes, hidden and deep directories are not looked into") {
  SavedFiles saved;
  saved.put("real/a_1.pt", torch_bytes());
  REQUIRE(::symlink(saved.path("real/a_1.pt").c_str(), saved.path("last.pt").c_str()) == 0);
  REQUIRE(::symlink(saved.path().c_str(), saved.path("loop").c_str()) == 0);
  REQUIRE(::mkfifo(saved.path("pipe.pt").c_str(), 0600) == 0);
  saved.put(".cache/a_2.pt", torch_bytes());
  saved.put("1/2/3/4/a_3.pt", torch_bytes());
  saved.put("1/2/3/4/5/a_4.pt", torch_bytes());
  const auto found =
      foreign_checkpoints({saved.path(), saved.path() + "/", saved.path("real")}, {});
  REQUIRE(found.size() == 2);
  CHECK(found.at(0).step == 3);
  CHECK(found.at(1).step == 1);
}

TEST_CASE("names that a terminal would obey are not told") {
  SavedFiles saved;
  saved.put("a\x1b[2J_1.pt", torch_bytes());
  saved.put("b\nc_2.pt", torch_bytes());
  saved.put("d\xff_3.pt", torch_bytes());
  CHECK(foreign_checkpoints({saved.path()}, {}).empty());
}

TEST_CASE("of a directory with very many files those with the highest numbers are looked at") {
  SavedFiles saved;
  constexpr int many = 12'000;
  for (int i = 0; i < many; ++i) saved.put("n_" + std::to_string(i) + ".txt", "");
  saved.put("latest_model.pt", torch_bytes());
  saved.put("n_" + std::to_string(many) + ".pt", torch_bytes());
  CHECK(newest(saved)->step == many);
  saved.remove("n_" + std::to_string(many) + ".pt");
  CHECK(newest(saved)->path == saved.path("latest_model.pt"));
}

TEST_CASE("that there is nothing is only said when there was time to look") {
  SavedFiles saved;
  const auto is_empty = [&](std::chrono::milliseconds limit) {
    return has_no_foreign_checkpoint({saved.path()}, {}, limit);
  };
  saved.put("notes.txt", "x");
  CHECK(is_empty(std::chrono::seconds{5}));
  CHECK_FALSE(is_empty(std::chrono::milliseconds{0}));
  saved.put("cut.pt", "PK");
  CHECK_FALSE(is_empty(std::chrono::seconds{5}));
  CHECK_FALSE(newest_foreign_checkpoint({saved.path("absent"), "relative"}, {}));
}

TEST_CASE("what muster.py marked is complete, whatever else it looks like") {
  SavedFiles saved;
  const std::string marker = ".muster-complete";
  saved.put("old/data/part", "x");
  saved.put("a_7.pt", "a pickle of an old torch");
  saved.put("a_7.pt" + marker, R"({"step": 70})");
  REQUIRE(newest(saved));
  CHECK(newest(saved)->path == saved.path("a_7.pt"));
  CHECK(newest(saved)->step == 70);
  CHECK(foreign_checkpoints({saved.path()}, {}).size() == 1);
  saved.put("old/" + marker, R"({"step": 80})");
  CHECK(newest(saved)->path == saved.path("old"));
  CHECK(newest(saved)->kind == "marker");
  saved.put("old/data/part", "y");  // written over, and not marked again
  CHECK(newest(saved)->step == 70);
  saved.put("a_7.pt", "again");
  CHECK_FALSE(newest(saved));
  for (const char* odd : {"", "{", "[]", R"({"step": -1})", R"({"step": "9"})",
                          R"({"step": 18446744073709551615})"}) {
    saved.put("a_7.pt" + marker, odd);
    saved.put("old/" + marker, odd);
    CHECK_FALSE(newest(saved));
  }
  saved.put("gone.pt" + marker, R"({"step": 90})");
  CHECK_FALSE(newest(saved));
}

TEST_CASE("what a marker counts has to be there; links and depth do not matter") {
  SavedFiles saved;
  saved.put("run/one/two/three/four/five/six/part", "1234");
  saved.put("run/other", "12");
  REQUIRE(::symlink("other", saved.path("run/latest").c_str()) == 0);
  saved.put("run/.muster-complete", R"({"step": 90, "files": 2, "bytes": 6})");
  REQUIRE(newest(saved));
  CHECK(newest(saved)->step == 90);
  CHECK(newest(saved)->bytes == 6);
  saved.remove("run/one");
  CHECK_FALSE(newest(saved));
  REQUIRE(foreign_checkpoints({saved.path()}, {}).size() == 1);
  CHECK(foreign_checkpoints({saved.path()}, {}).front().state == SaveState::incomplete);
}

TEST_CASE("files that may not be read are unknown") {
  if (::geteuid() == 0) return;  // root reads them
  SavedFiles saved;
  saved.put("a.pt", torch_bytes());
  REQUIRE(::chmod(saved.path("a.pt").c_str(), 0) == 0);
  CHECK(foreign_checkpoints({saved.path()}, {}).at(0).state == SaveState::unknown);
}

TEST_CASE(
    "only the Trainer's incomplete checkpoints of this job are renamed, and nothing is lost") {
  SavedFiles saved;
  constexpr std::int64_t first_file_ms = 1'700'000'001'000;
  const auto quarantine = [&](std::int64_t since_ms) {
    return quarantine_incomplete({saved.path()}, {}, {since_ms, at_any_time}, 3);
  };
  saved.put("checkpoint-10/config.json", "{}");  // cut while weights were written
  saved.put("checkpoint-10/.tmpAb12", "half");
  CHECK(quarantine(first_file_ms + 60'000).empty());  // older than the job
  saved.put("checkpoint-20/model.safetensors", safetensors_bytes());
  saved.put("checkpoint-20/trainer_state.json", R"({"global_step": 20})");
  saved.put("alone/checkpoint-30/config.json", "{}");  // unknown: perhaps somebody's model
  saved.put("alone/checkpoint-30/model.safetensors", safetensors_bytes());
  saved.put("checkpoint-35/model.safetensors", safetensors_bytes());  // the Trainer's, as others
  saved.put("checkpoint-40/model.safetensors", safetensors_bytes());
  saved.put("checkpoint-40/training_args.bin", torch_bytes());
  saved.put("cut_50.pt", "PK");
  const auto renamed = quarantine(first_file_ms);
  CHECK(std::set<std::string>(renamed.begin(), renamed.end()) ==
        std::set<std::string>{saved.path("checkpoint-10.incomplete-3"),
                              saved.path("checkpoint-35.incomplete-3"),
                              saved.path("checkpoint-40.incomplete-3")});
  CHECK(std::filesystem::exists(saved.path("checkpoint-10.incomplete-3/.tmpAb12")));
  CHECK(quarantine(first_file_ms).empty());
  CHECK(newest(saved)->step == 20);
}

TEST_CASE("what is written after the job's last attempt has ended is another job's") {
  SavedFiles saved;
  saved.put("checkpoint-10/training_args.bin", torch_bytes());
  const auto renamed = [&](std::int64_t until_ms) {
    return quarantine_incomplete({saved.path()}, {}, {0, until_ms}, 1).size();
  };
  CHECK(renamed(1'700'000'000'000) == 0);
  CHECK(renamed(1'700'000'001'000) == 1);
  saved.put("checkpoint-10/training_args.bin", torch_bytes());  // the name is taken by now
  CHECK(renamed(at_any_time) == 1);
  CHECK(std::filesystem::exists(saved.path("checkpoint-10.incomplete-1-2/training_args.bin")));
}

TEST_CASE("other programs' files in folders named like the Trainer's are not renamed") {
  SavedFiles saved;
  for (const char* name : {"weights.h5", "flax_model.msgpack", "optimizer.pt", "model.pt"}) {
    saved.put("checkpoint-1/config.json", "{}");
    saved.put(std::string("checkpoint-1/") + name, "cut");
    CAPTURE(name);
    CHECK(quarantine_incomplete({saved.path()}, {}, {0, at_any_time}, 1).empty());
    saved.remove("checkpoint-1");
  }
}

TEST_CASE("thousands of saves in one directory take memory for each, not for each of each") {
  SavedFiles saved;
  for (int i = 1000; i < 4000; ++i) {
    std::filesystem::create_directory(saved.path("global_step" + std::to_string(i)));
    saved.put("ckpt-" + std::to_string(i) + ".index", "i");
    saved.put("ckpt-" + std::to_string(i) + ".data-00000-of-00001", "d");
  }
  saved.put("latest", "global_step3999");
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  CHECK(foreign_checkpoints({saved.path()}, {}).size() == 6000);
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 150'000);  // KiB; was 1.6 GB
}

TEST_CASE("a directory named like a step of DeepSpeed hides no others") {
  SavedFiles saved;
  std::filesystem::create_directory(saved.path("global_step1"));
  saved.put("run/a_7.pt", torch_bytes());
  CHECK(newest(saved)->step == 7);
  CHECK(foreign_checkpoints({saved.path()}, {}).size() == 2);
}

TEST_CASE("a file from the future is not the newest for ever") {
  SavedFiles saved;
  saved.put("a_1.pt", torch_bytes());
  const timespec future[2] = {{7'000'000'000, 0}, {7'000'000'000, 0}};
  ::utimensat(AT_FDCWD, saved.path("a_1.pt").c_str(), future, 0);
  CHECK(newest(saved)->step == 1);
  saved.put("a_2.pt", torch_bytes());
  CHECK(newest(saved)->step == 2);
}

TEST_CASE("a directory of checkpoints, and one that others' files fill, keep their names") {
  SavedFiles saved;
  saved.put("checkpoint-7/training_args.bin", torch_bytes());
  saved.put("checkpoint-7/checkpoint-10/trainer_state.json", R"({"global_step": 10})");
  CHECK(quarantine_incomplete({saved.path()}, {}, {0, at_any_time}, 1).empty());
  CHECK(quarantine_incomplete({saved.path("checkpoint-7")}, {}, {0, at_any_time}, 1).empty());
  saved.remove("checkpoint-7");
  saved.put("checkpoint-8/model.safetensors", safetensors_bytes());
  saved.put("checkpoint-8/vectors.bin", "fast text");
  saved.put("checkpoint-8/words.index.json", R"({"words": 7})");
  saved.put("checkpoint-8/trainer_state.json",
            R"({"best": -Infinity, "global_step": 8, "log_history": [{"grad_norm": NaN}]})");
  CHECK(newest(saved)->step == 8);
  CHECK(quarantine_incomplete({saved.path()}, {}, {0, at_any_time}, 1).empty());
  std::filesystem::create_directory(saved.path("checkpoint-9"));
  REQUIRE(::symlink("/nowhere", saved.path("checkpoint-9/model.safetensors").c_str()) == 0);
  CHECK(quarantine_incomplete({saved.path()}, {}, {0, at_any_time}, 1).empty());
}

TEST_CASE("a directory that the Trainer had just made is renamed, too") {
  SavedFiles saved;
  std::filesystem::create_directory(saved.path("checkpoint-10"));
  CHECK(quarantine_incomplete({saved.path()}, {}, {0, at_any_time}, 1).size() == 1);
}

TEST_CASE("a retention that removes while somebody looks makes no incomplete one complete") {
  SavedFiles saved;
  const std::string names = "\x80 __0_0.distcp. __1_0.distcp";
  for (int i = 0; i < 40; ++i) {
    const std::string step = "s" + std::to_string(i);
    saved.put(step + "/__0_0.distcp", "data");
    saved.put(step + "/__1_0.distcp", "data");
    saved.put(step + "/.metadata", names);
  }
  std::thread retention([&] {
    for (int i = 0; i < 40; ++i) saved.remove("s" + std::to_string(i));
  });
  for (int i = 0; i < 100; ++i) {
    for (const ForeignCheckpoint& found : foreign_checkpoints({saved.path()}, {})) {
      CHECK(found.kind == "dcp");
    }
  }
  retention.join();
  CHECK_FALSE(newest(saved));
}
