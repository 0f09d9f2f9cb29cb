// cert.json, grades, quarantine and release, pins, and what retention makes of them.

#include "runtime/checkpoint/resume_log.h"

#include <filesystem>
#include <random>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/commit.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

GradingEvidence after(std::uint64_t step, std::uint64_t generation = 1) {
  return {step, generation, {"20 steps without a doubt"}};
}

std::string word_of(const std::string& path) {
  return standing_word(standing_of_checkpoint(path));
}

std::vector<std::string> names_in(const std::string& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string resealed(std::string text) {
  text.resize(text.size() - checkpoint_seal_bytes);
  return seal_json(text + "}");
}

}  // namespace

TEST_CASE("a certificate reads back as it was written") {
  Certificate certificate;
  certificate.checkpoint = "s000000010-g1";
  certificate.evidence = {"loss \"fine\"", "bad \xff byte"};
  certificate.at_step = 40;
  certificate.generation = 3;
  for (const CheckpointGrade grade :
       {CheckpointGrade::committed, CheckpointGrade::sane, CheckpointGrade::certified}) {
    certificate.standing = grade;
    const auto again = parse_certificate(format_certificate(certificate));
    REQUIRE(again);
    CHECK(std::get<CheckpointGrade>(again.value().standing) == grade);
    CHECK(again.value().evidence.at(0) == "loss \"fine\"");
    CHECK(again.value().at_step == 40u);
    CHECK(again.value().generation == 3);
  }
  certificate.standing = CheckpointQuarantine{"loss", 33};
  const auto bad = parse_certificate(format_certificate(certificate));
  REQUIRE(bad);
  CHECK(std::get<CheckpointQuarantine>(bad.value().standing).reason == "loss");
  CHECK(std::get<CheckpointQuarantine>(bad.value().standing).suspect_from == 33u);
}

TEST_CASE("a certificate that is damaged or of another checkpoint means COMMITTED") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  CHECK(read_certificate(one.path()).ok());
  REQUIRE(certify(one.path(), after(30)).ok());
  CHECK(word_of(one.path()) == "CERTIFIED");
  const std::string file = one.path() + "/cert.json";
  const std::string whole = content_of(file);
  put(file, whole.substr(0, whole.size() / 2));
  CHECK_THAT(read_certificate(one.path()).reason(), ContainsSubstring("torn"));
  CHECK(word_of(one.path()) == "COMMITTED");
  Certificate other;
  other.checkpoint = "s000000099-g1";
  other.standing = CheckpointGrade::certified;
  put(file, format_certificate(other));
  CHECK_THAT(read_certificate(one.path()).reason(), ContainsSubstring("belongs to s000000099-g1"));
  CHECK(word_of(one.path()) == "COMMITTED");
}

TEST_CASE("no bytes of a certificate break its reader, sealed or not") {
  Certificate certificate;
  certificate.checkpoint = "s000000010-g1";
  certificate.standing = CheckpointQuarantine{"manual", 5};
  certificate.evidence = {"one", "two"};
  const std::string good = format_certificate(certificate);
  std::mt19937_64 random(7);
  std::size_t read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      const std::size_t kind = random() % 4;
      if (kind == 0) text[at] = static_cast<char>(random());
      if (kind == 1) text.erase(at, 1 + random() % 20);
      if (kind == 2) text.insert(at, text.substr(random() % text.size(), random() % 30));
      if (kind == 3) text.insert(at, 1 + random() % 3, "[]{}\",:0"[random() % 8]);
      if (text.size() < checkpoint_seal_bytes + 1) text = good;
    }
    if (text != good) CHECK_FALSE(parse_certificate(text).ok());
    const auto parsed = parse_certificate(resealed(text));
    if (parsed) ++read;
    if (!parsed) CHECK_FALSE(parsed.reason().empty());
  }
  CHECK(read > 0);  // some changes are within texts
  CHECK_FALSE(parse_certificate(seal_json("{\"a\":" + std::string(100000, '[') + "}")).ok());
}

TEST_CASE("grades rise, are never lowered, and need a sane state and training after it") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  CHECK(word_of(one.path()) == "COMMITTED");
  CHECK_THAT(certify(one.path(), after(10)).reason(), ContainsSubstring("nothing was trained"));
  REQUIRE(mark_sane(one.path(), after(10)).ok());
  CHECK(word_of(one.path()) == "SANE");
  REQUIRE(certify(one.path(), after(30)).ok());
  REQUIRE(mark_sane(one.path(), after(31)).ok());
  CHECK(word_of(one.path()) == "CERTIFIED");
  CHECK(read_certificate(one.path()).value().at_step == 30u);

  const ACheckpoint torn{.root = folder.path(), .step = 20};
  Manifest manifest = torn.manifest_with_shards();
  manifest.replica.agree = false;
  REQUIRE(commit_checkpoint(folder.path(), manifest).ok());
  CHECK_THAT(mark_sane(torn.path(), after(20)).reason(), ContainsSubstring("is not sane"));
  const ACheckpoint infinite{.root = folder.path(), .step = 21};
  manifest = infinite.manifest_with_shards();
  manifest.shards[1].vitals[2].nonfinite = 3;
  REQUIRE(commit_checkpoint(folder.path(), manifest).ok());
  CHECK_THAT(certify(infinite.path(), after(50)).reason(),
             ContainsSubstring("3 values of exp_avg_sq are not finite"));
  fs::remove(one.path() + "/manifest.json");
  CHECK_FALSE(certify(one.path(), after(50)).ok());
}

TEST_CASE("a generation that was replaced gives no grades") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  log_generation(folder.path(), 2, 10);
  CHECK_THAT(mark_sane(one.path(), after(10, 1)).reason(),
             ContainsSubstring("generation 2 has taken over"));
  CHECK(mark_sane(one.path(), after(10, 2)).ok());
}

TEST_CASE("the newest certified checkpoint can be asked for") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  REQUIRE(certify(folder / "s000000010-g1", after(50)).ok());
  REQUIRE(certify(folder / "s000000020-g1", after(50)).ok());
  REQUIRE(mark_sane(folder / "s000000030-g1", after(50)).ok());
  const CheckpointSearch search = search_checkpoints(folder.path());
  CHECK(search.newest()->step == 40);
  CHECK(search.newest(CheckpointGrade::sane)->step == 30);
  CHECK(search.newest(CheckpointGrade::certified)->step == 20);
  REQUIRE(quarantine_checkpoint(folder.path(), {"s000000020-g1", "loss", 1, 15}, "z = 9").ok());
  CHECK(search_checkpoints(folder.path()).newest(CheckpointGrade::certified)->step == 10);
}

TEST_CASE("only a release lifts a quarantine, whichever of its two records is lost") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  REQUIRE(certify(one.path(), after(30)).ok());
  CHECK_THAT(release_checkpoint(one.path(), "x").reason(), ContainsSubstring("not quarantined"));
  REQUIRE(quarantine_checkpoint(folder.path(), {one.name(), "node_fault", 1, 7}, "Xid 79").ok());
  const std::string log = content_of(folder / "resume_log.jsonl");
  const std::string certificate = content_of(one.path() + "/cert.json");
  CHECK_THAT(certify(one.path(), after(60)).reason(), ContainsSubstring("quarantined: node_fault"));

  const auto is_out = [&] {
    const CheckpointSearch search = search_checkpoints(folder.path());
    return search.usable.empty() && search.rejected.at(0).quarantine->reason == "node_fault" &&
           search.rejected.at(0).quarantine->suspect_from == 7u;
  };
  CHECK(is_out());
  fs::remove(one.path() + "/cert.json");
  CHECK(is_out());
  CHECK_FALSE(certify(one.path(), after(60)).ok());
  put(one.path() + "/cert.json", certificate);
  fs::remove(folder / "resume_log.jsonl");
  CHECK(is_out());
  fs::create_directory(folder / "resume_log.jsonl");  // nothing can be appended
  CHECK_FALSE(release_checkpoint(one.path(), "the node was fine").ok());
  CHECK(is_certified_bad(one.path()));
  fs::remove(folder / "resume_log.jsonl");

  put(folder / "resume_log.jsonl", log);
  REQUIRE(release_checkpoint(one.path(), "the node was fine").ok());
  CHECK(word_of(one.path()) == "COMMITTED");
  CHECK(search_checkpoints(folder.path()).newest()->step == 10);
  REQUIRE(quarantine_checkpoint(folder.path(), {one.name(), "node_fault", 1, 7}, "again").ok());
  CHECK(is_out());
}

TEST_CASE("a quarantine is in the log before it is in the certificate") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  fs::create_directories(one.path() + "/cert.json.tmp");  // cert.json cannot be replaced
  CHECK_FALSE(quarantine_checkpoint(folder.path(), {one.name(), "manual", 0}, "why").ok());
  CHECK(read_resume_log(folder.path()).quarantined.contains(one.name()));
  CHECK(search_checkpoints(folder.path()).usable.empty());
}

TEST_CASE(
    "retention keeps the newest, two certified ones, what is pinned and what is referred to") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40, 50, 60, 70, 80}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  for (const char* name : {"s000000010-g1", "s000000020-g1", "s000000030-g1"}) {
    REQUIRE(certify(folder / name, after(90)).ok());
  }
  REQUIRE(pin_checkpoint(folder / "s000000040-g1", "for the paper").ok());
  CHECK(pin_reason(folder / "s000000040-g1") == "for the paper");
  Retention retention{.keep = 2, .generation = 1, .step = 80};
  retention.referred = {"s000000050-g1"};
  const auto gone = collect_checkpoints(folder.path(), retention);
  REQUIRE(gone);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"s000000020-g1", "s000000030-g1",
                                                            "s000000040-g1", "s000000050-g1",
                                                            "s000000070-g1", "s000000080-g1"});
  REQUIRE(unpin_checkpoint(folder / "s000000040-g1").ok());
  CHECK_THAT(unpin_checkpoint(folder / "s000000040-g1").reason(),
             ContainsSubstring("is not pinned"));
  retention.referred.clear();
  retention.keep_certified = 0;  // the newest certified one stays all the same
  retention.keep = 0;            // and so do the two newest
  REQUIRE(collect_checkpoints(folder.path(), retention).ok());
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"s000000030-g1", "s000000070-g1", "s000000080-g1"});
}

TEST_CASE("a certified checkpoint among the newest counts as one of the certified to keep") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  for (const char* name : {"s000000010-g1", "s000000020-g1", "s000000030-g1"}) {
    REQUIRE(certify(folder / name, after(90)).ok());
  }
  REQUIRE(collect_checkpoints(folder.path(), {.keep = 2, .generation = 1, .step = 40}).ok());
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"s000000020-g1", "s000000030-g1", "s000000040-g1"});
}

TEST_CASE("a quarantined checkpoint is not one of those that retention counts") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  REQUIRE(quarantine_checkpoint(folder.path(), {"s000000030-g1", "manual", 0}, "why").ok());
  REQUIRE(collect_checkpoints(folder.path(), {.keep = 2, .generation = 1, .step = 30}).ok());
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"s000000010-g1", "s000000020-g1", "s000000030-g1"});
}
