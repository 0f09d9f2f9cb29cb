// Each kind of other programs' checkpoints: what is whole is complete, and nothing else ever is.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "scheduler/model/names.h"
#include "tests/catch.h"
#include "tests/launcher/agent/foreign_checkpoints/saved_files.h"

using namespace muster;
using namespace muster::test;

namespace {

using Files = std::map<std::string, std::string>;  // path -> bytes, in the order of their names

struct WholeSave {
  std::string kind;
  Files files;
  std::string path;  // as it is offered
  std::optional<std::int64_t> step;
  std::vector<std::string> last = {};  // of these a cut is not seen, or not needed
  LookSettings settings = {};
};

const std::string z = torch_bytes();
const std::string s = safetensors_bytes();
const std::string distcp_names = "\x80\x05 __0_0.distcp\x94 x __1_0.distcp\x94.";
const std::string index_of_two =
    R"({"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
    R"("b":"model-00002-of-00002.safetensors"}})";

std::vector<WholeSave> whole_saves() {
  LookSettings done;
  done.marker = "*.done";
  LookSettings four;
  four.world = 2;
  return {
      {"torch", {{"ckpt/model_400.pt", z}}, "ckpt/model_400.pt", 400},
      {"torch", {{"ckpt/best.pth", z}}, "ckpt/best.pth", std::nullopt},
      {"lightning", {{"epoch=3-step=400.ckpt", z}}, "epoch=3-step=400.ckpt", 400},
      {"lightning", {{"last-v1.ckpt", z}}, "last-v1.ckpt", std::nullopt},
      {"safetensors", {{"weights-7.safetensors", s}}, "weights-7.safetensors", 7},
      {"safetensors",
       {{"save-9/model.safetensors.index.json", index_of_two},
        {"save-9/model-00001-of-00002.safetensors", s},
        {"save-9/model-00002-of-00002.safetensors", s}},
       "save-9",
       9},
      {"dcp",
       {{"step_30/__0_0.distcp", "data"},
        {"step_30/__1_0.distcp", "data"},
        {"step_30/.metadata", distcp_names}},
       "step_30",
       30,
       {"step_30/__0_0.distcp", "step_30/__1_0.distcp"}},
      {"huggingface",
       {{"checkpoint-50/config.json", "{}"},
        {"checkpoint-50/model.safetensors", s},
        {"checkpoint-50/optimizer.pt", z},
        {"checkpoint-50/trainer_state.json", R"({"global_step": 50, "log_history": []})"},
        {"checkpoint-50/rng_state_1.pth", z}},
       "checkpoint-50",
       50,
       {"checkpoint-50/config.json"}},
      {"accelerate",
       {{"checkpoints/checkpoint_2/model.safetensors", s},
        {"checkpoints/checkpoint_2/optimizer.bin", z},
        {"checkpoints/checkpoint_2/random_states_0.pkl", z},
        {"checkpoints/checkpoint_2/random_states_1.pkl", z}},
       "checkpoints/checkpoint_2",
       2,
       {},
       four},
      {"deepspeed",
       {{"latest", "global_step40"},
        {"global_step40/mp_rank_00_model_states.pt", z},
        {"global_step40/zero_pp_rank_0_mp_rank_00_optim_states.pt", z},
        {"global_step40/zero_pp_rank_1_mp_rank_00_optim_states.pt", z}},
       "global_step40",
       40,
       {"latest"},
       four},
      {"megatron",
       {{"latest_checkpointed_iteration.txt", "120\n"},
        {"iter_0000120/mp_rank_00/model_optim_rng.pt", z}},
       "iter_0000120",
       120},
      {"tensorflow",
       {{"tf/ckpt-8.index", "index"},
        {"tf/ckpt-8.data-00000-of-00002", "d"},
        {"tf/ckpt-8.data-00001-of-00002", "d"}},
       "tf/ckpt-8",
       8,
       {"tf/ckpt-8.index", "tf/ckpt-8.data-00000-of-00002", "tf/ckpt-8.data-00001-of-00002"}},
      {"ray",
       {{"run/checkpoint_manager_snapshot.json",
         R"({"checkpoint_results": [{"checkpoint_dir_name": "checkpoint_a",)"
         R"("metrics": {"step": 16}}]})"},
        {"run/checkpoint_a/model.pt", z},
        {"run/checkpoint_b/model.pt", z}},
       "run/checkpoint_a",
       16,
       {"run/checkpoint_a/model.pt", "run/checkpoint_b/model.pt"}},
      {"marker",
       {{"own-64/part", "x"}, {"own-64/all.done", ""}},
       "own-64",
       64,
       {"own-64/part"},
       done},
  };
}

std::optional<ForeignCheckpoint> newest(const SavedFiles& saved, const LookSettings& settings) {
  return newest_foreign_checkpoint({saved.path()}, settings);
}

bool offers(const SavedFiles& saved, const WholeSave& save) {
  const auto found = newest(saved, save.settings);
  return found && found->path == saved.path(save.path);
}

void put_all(SavedFiles& saved, const Files& files) {
  // What tells that it was done comes last, as the program writes it.
  for (const auto& [name, bytes] : files) saved.put(name, bytes);
  for (const char* last : {"step_30/.metadata"}) {
    if (const auto found = files.find(last); found != files.end()) saved.put(last, found->second);
  }
}

}  // namespace

TEST_CASE("a whole checkpoint of each kind is found, with its step and what it holds") {
  for (const WholeSave& save : whole_saves()) {
    CAPTURE(save.kind, save.path);
    SavedFiles saved;
    put_all(saved, save.files);
    const auto found = newest(saved, save.settings);
    REQUIRE(found);
    CHECK(found->kind == save.kind);
    CHECK(found->path == saved.path(save.path));
    CHECK(found->step == save.step);
    CHECK(found->bytes > 0 - (save.kind == "marker"));
    CHECK(found->why.empty());
    LookSettings that = save.settings;
    that.format = save.kind;
    CHECK(newest_foreign_checkpoint({saved.path()}, that));
    that.format = save.kind == "dcp" ? "megatron" : "dcp";
    CHECK_FALSE(newest_foreign_checkpoint({saved.path()}, that));
  }
}

TEST_CASE("a checkpoint that lacks a file, or of which a file is cut anywhere, is not taken") {
  for (const WholeSave& save : whole_saves()) {
    for (const auto& [name, bytes] : save.files) {
      CAPTURE(save.kind, name);
      const bool is_told_by_it = std::ranges::find(save.last, name) == save.last.end();
      SavedFiles saved;
      put_all(saved, save.files);
      saved.remove(name);
      const bool is_needed = is_told_by_it || name.ends_with(".distcp") ||
                             name.ends_with(".index") || name.find(".data-") != name.npos;
      if (is_needed && name.find("rng_state") == name.npos) CHECK_FALSE(offers(saved, save));
      if (!is_told_by_it) continue;
      for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97) {
        CAPTURE(size);
        if (name.ends_with(".metadata") && size > 0 && bytes[size - 1] == '.') continue;
        const bool is_harmless = name.ends_with(".txt") && size >= 3;  // its line end
        saved.put(name, bytes.substr(0, size));
        if (!is_harmless && name != "own-64/all.done") CHECK_FALSE(offers(saved, save));
      }
    }
  }
}

TEST_CASE("every kind is a value of checkpoint.format, and the other way round") {
  std::vector<std::string> words{"auto", "muster", "none"};
  for (const CheckpointKind& kind : checkpoint_kinds()) words.emplace_back(kind.word);
  std::vector<std::string> formats = checkpoint_formats;
  std::ranges::sort(words);
  std::ranges::sort(formats);
  CHECK(words == formats);
}

TEST_CASE("of distributed checkpoints the data must be there, whole and older than the metadata") {
  SavedFiles saved;
  const auto state = [&] { return foreign_checkpoints({saved.path()}, {}).at(0); };
  saved.put("s/__0_0.distcp", "data");
  saved.put("s/__1_0.distcp", "data");
  CHECK(state().why == ".metadata, which is written last, is missing");
  saved.put("s/.metadata", distcp_names);
  CHECK(state().state == SaveState::complete);
  saved.put("s/__0_0.distcp", "data");
  CHECK(state().why == "__0_0.distcp is newer than .metadata");
  CHECK(state().state == SaveState::unknown);
  saved.put("s/.metadata", distcp_names);
  saved.put("s/.metadata.tmp", "x");
  CHECK(state().state == SaveState::incomplete);
  saved.remove("s/.metadata.tmp");
  saved.remove("s/__1_0.distcp");
  CHECK(state().why == "__1_0.distcp is missing");
}

TEST_CASE("shards by HuggingFaceStorageWriter are complete when each rank's is there") {
  SavedFiles saved;
  saved.put("s/shard-00001-model-00001-of-00001.safetensors", s);
  LookSettings two;
  two.world = 2;
  CHECK_FALSE(newest(saved, two));
  CHECK(foreign_checkpoints({saved.path()}, {}).at(0).state == SaveState::unknown);
  saved.put("s/shard-00002-model-00001-of-00001.safetensors", s);
  CHECK(newest(saved, two));
}

TEST_CASE("DeepSpeed's latest says nothing: a rank may be slower, and the one before is taken") {
  SavedFiles saved;
  for (const char* step : {"global_step10", "global_step20"}) {
    for (const char* rank : {"0", "1", "2"}) {
      saved.put(step + std::string("/zero_pp_rank_") + rank + "_mp_rank_00_optim_states.pt", z);
    }
    saved.put(step + std::string("/mp_rank_00_model_states.pt"), z);
  }
  saved.put("latest", "global_step20");
  CHECK(newest(saved, {})->step == 20);
  saved.remove("global_step20/zero_pp_rank_2_mp_rank_00_optim_states.pt");
  CHECK(newest(saved, {})->step == 10);
}

TEST_CASE("a model of DeepSpeed's alone is complete without ZeRO only, which latest tells") {
  SavedFiles saved;
  const auto states = [&] { return foreign_checkpoints({saved.path()}, {}); };
  saved.put("global_step10/mp_rank_00_model_states.pt", z);
  CHECK(states().at(0).state == SaveState::unknown);
  saved.put("latest", "global_step10");
  CHECK(newest(saved, {})->step == 10);
  saved.put("global_step20/mp_rank_00_model_states.pt", z);
  CHECK(newest(saved, {})->step == 10);
  saved.put("latest", "global_step20");
  CHECK(newest(saved, {})->step == 20);
  saved.put("global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", z);
  CHECK(states().at(1).why == "*_optim_states.pt is missing");
  CHECK(newest(saved, {})->step == 10);
  saved.put("global_step30/zero_pp_rank_0_mp_rank_00_model_states.pt", z);
  CHECK(newest(saved, {})->step == 10);
}

TEST_CASE("what cannot be told is neither taken nor called incomplete") {
  SavedFiles saved;
  saved.put("old.pt", std::string("\x80\x02\x8a\x0a") + std::string(40, 'p'));
  saved.put("tokens.bin", "not a tensor");
  saved.put("other/checkpoint-5/config.json", "{}");
  saved.put("other/checkpoint-5/model.safetensors", s);
  saved.put("checkpoint-7/model.safetensors", s);
  saved.put("checkpoint-7/trainer_state.json", R"({"global_step": 9})");
  CHECK_FALSE(newest(saved, {}));
  for (const ForeignCheckpoint& found : foreign_checkpoints({saved.path()}, {})) {
    CAPTURE(found.path, found.why);
    CHECK(found.state == SaveState::unknown);
  }
}

TEST_CASE("a folder named like the Trainer's is another program's where it holds its own files") {
  SavedFiles saved;
  saved.put("checkpoint-100/state.pt", z);
  CHECK(newest(saved, {})->kind == "torch");
  saved.put("checkpoint-200/model.safetensors", s);
  saved.put("checkpoint-200/optimizer.bin", z);
  saved.put("checkpoint-200/random_states_0.pkl", z);
  const auto found = newest(saved, {});
  CHECK(found->kind == "accelerate");
  CHECK(found->step == 200);
}

TEST_CASE("a step is what a name ends with, not any number in it") {
  CHECK(step_named("epoch=3-step=400") == 400);
  CHECK(step_named("model_400") == 400);
  CHECK(step_named("global_step40") == 40);
  CHECK(step_named("7") == 7);
  for (const char* none : {"resnet50", "epoch=3-loss=0.25", "last-v1", "best", "", "x_"}) {
    CAPTURE(none);
    CHECK_FALSE(step_named(none));
  }
}

TEST_CASE("what Python writes as JSON is read, and what is nested without end is not") {
  CHECK(read_json(R"({"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN"})").dump() ==
        R"({"a":null,"b":[null,null],"c":"NaN \" NaN"})");
  CHECK(read_json(std::string(100, '[')).is_discarded());
  CHECK(read_json(std::string(100'000, '[') + std::string(100'000, ']')).is_discarded());
  CHECK(read_json("{\"a\": 1").is_discarded());
}

TEST_CASE("hostile headers and indexes are no complete checkpoints") {
  SavedFiles saved;
  const auto with_header = [](const std::string& header, const std::string& data) {
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    return length + header + data;
  };
  saved.put("a_1.safetensors", std::string(8, '\xff') + "x");
  saved.put("a_2.safetensors",
            with_header(R"({"w":{"data_offsets":[0,9223372036854775816]}})", ""));
  saved.put("a_3.safetensors", with_header(R"({"w":{"data_offsets":[0,1e300]}})", ""));
  saved.put("b/model.safetensors.index.json", R"({"weight_map":{}})");
  saved.put("c/model.safetensors.index.json", R"({"weight_map":{"a":"../a_1.safetensors"}})");
  saved.put("d/model-00001-of-00002.safetensors", s);  // no index yet
  saved.put("d/pytorch_model-00001-of-00002.bin", z);
  saved.put("e/zero_pp_rank_0_mp_rank_00_optim_states.pt", z);
  CHECK_FALSE(newest(saved, {}));
}

TEST_CASE("what is written over an older checkpoint is not taken while it is old and new") {
  SavedFiles saved;
  saved.put("last/model.safetensors", s);
  saved.put("last/optimizer.bin", z);
  saved.put("last/random_states_0.pkl", z);
  CHECK(newest(saved, {}));
  saved.put("last/model.safetensors", s);
  CHECK_FALSE(newest(saved, {}));
  saved.put("checkpoint-3/model.safetensors", s);
  saved.put("checkpoint-3/trainer_state.json", R"({"global_step": 3})");
  CHECK(newest(saved, {}));
  saved.put("checkpoint-3/model.safetensors", s);
  CHECK_FALSE(newest(saved, {}));
}
