// Lightning's table, the Trainer's history, MLflow's database.
#include <sqlite3.h>

#include <random>

#include "tests/launcher/agent/metric_sources/sample.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

class AnMlflowDatabase {
 public:
  explicit AnMlflowDatabase(std::string path) : path_(std::move(path)) {
    REQUIRE(sqlite3_open(path_.c_str(), &database_) == SQLITE_OK);
    run(sample("mlflow.sql"));
  }
  ~AnMlflowDatabase() { sqlite3_close(database_); }
  AnMlflowDatabase(const AnMlflowDatabase&) = delete;
  void run(const std::string& sql) {
    REQUIRE(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* database_ = nullptr;
};

const Words logged = {"loss@1=2", "loss@2=1", "loss@3=0.666667", "loss@4=0.5", "loss@5=0.4",
                      "acc@5=-",  "big@5=-",  "loss@1=9",        "other@1=1"};

}  // namespace

TEST_CASE("Lightning's table is read, its empty cells passed over") {
  const FakeRoot root;
  put_bytes(root.below("/metrics.csv"), sample("metrics.csv"));
  const Words words = words_of(read_all(read_metrics_csv, root.below("/metrics.csv")).points);
  REQUIRE(words.size() == 24);
  CHECK(words[0] == "epoch@1=0");
  CHECK(words[1] == "train_loss@1=0.179124");
  CHECK(words[11] == "val_loss@9=0.269429");
}

TEST_CASE("a table that grows, is cut anywhere and gets a longer header tells each row once") {
  const FakeRoot root;
  const std::string path = root.below("/metrics.csv"), whole = sample("metrics.csv");
  put_bytes(path, whole);
  const Words all = words_of(read_all(read_metrics_csv, path).points);
  const std::string before =
      "epoch,step,train_loss\r\n0,1,0.17912375926971436\r\n"
      "0,3,1.3052501678466797\r\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(cut);
    SourcePlace place;
    MetricLook look;
    const auto put = [&](std::string_view bytes) {
      put_bytes(path, bytes);
      read_metrics_csv(file_at(path), place, look);
    };
    put(before.substr(0, std::min(cut, before.size())));
    put(before);
    put("");  // while it is written again
    put(whole.substr(0, cut));
    put(whole);
    put(whole);
    REQUIRE(words_of(look.points) == all);
  }
}

TEST_CASE("another table in the place of one is read from its beginning") {
  const FakeRoot root;
  const std::string path = root.below("/metrics.csv");
  SourcePlace place;
  MetricLook look;
  for (const char* text : {"step,a\r\n1,0.5\r\n2,0.25\r\n", "step,a\r\n7,0.125\r\n"}) {
    put_bytes(path, text);
    for (int time = 0; time < 2; ++time) read_metrics_csv(file_at(path), place, look);
  }
  CHECK(words_of(look.points) == Words{"a@1=0.5", "a@2=0.25", "a@7=0.125"});
}

TEST_CASE("odd tables say nothing false") {
  const FakeRoot root;
  const std::string path = root.below("/metrics.csv");
  put_bytes(path, "\"a, \"\"b\"\"\",step,c\n0.5,3,nan\n0.5,,1\n1,2\nx,4,inf\n\n1,5,6,7\n");
  CHECK(words_of(read_all(read_metrics_csv, path).points) ==
        Words{"a, b@3=0.5", "c@3=-", "c@4=-"});
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text = sample("metrics.csv");
    for (int i = 0; i < 20; ++i) text[random() % text.size()] = static_cast<char>(random());
    put_bytes(path, text);
    CHECK(read_all(read_metrics_csv, path).points.size() < 100);
  }
}

TEST_CASE("a table of too many columns is not read, nor a row that is too long") {
  const FakeRoot root;
  const std::string path = root.below("/metrics.csv");
  put_bytes(path, "step" + std::string(2000, ',') + "\n1\n");
  const MetricLook look = read_all(read_metrics_csv, path);
  CHECK(look.points.empty());
  CHECK(look.notes.size() == 1);
  put_bytes(path, "step,a\n1," + std::string(70'000, '1') + "\n2,0.5\n");
  CHECK(words_of(read_all(read_metrics_csv, path).points) == Words{"a@2=0.5"});
  std::filesystem::resize_file(path, (64 << 20) + 1);
  const MetricLook large = read_all(read_metrics_csv, path);
  CHECK(large.points.empty());
  REQUIRE(large.notes.size() == 1);
  CHECK_THAT(large.notes[0], ContainsSubstring("too large"));
}

TEST_CASE("the Trainer's history is told from the last step on, once for each checkpoint") {
  const FakeRoot root;
  const std::string path = root.below("/out/checkpoint-12/trainer_state.json");
  const std::string whole = sample("trainer_state.json");
  SourcePlace place;
  MetricLook look;
  SourceFile file{path};
  file.places.after_step = 10;  // it was resumed from there
  for (std::size_t cut = 0; cut < whole.size() - 2; cut += 7) {
    put_bytes(path, whole.substr(0, cut));
    read_trainer_state(file, place, look);
    REQUIRE(look.points.empty());
  }
  put_bytes(path, whole);
  for (int time = 0; time < 2; ++time) read_trainer_state(file, place, look);
  const Words words = words_of(look.points);
  CHECK(std::ranges::count(words, "loss@12=2.26335") == 1);
  CHECK(std::ranges::count(words, "eval_loss@12=2.11992") == 1);
  for (const MetricPoint& point : look.points) CHECK(point.step == 12);
  for (const char* odd : {"[]", "{}", "7", R"({"log_history": {}})",
                          R"({"log_history": [7, {"step": "x", "a": 1}, {"a": 1}]})"}) {
    SourcePlace fresh;
    put_bytes(path, odd);
    read_trainer_state(file, fresh, look);
  }
  CHECK(words_of(look.points) == words);
}

TEST_CASE("MLflow's metrics are read as they were added, NaN and infinity as no numbers") {
  const FakeRoot root;
  AnMlflowDatabase database(root.below("/mlflow.db"));
  SourcePlace place;
  MetricLook look;
  for (int time = 0; time < 2; ++time) read_mlflow(file_at(database.path()), place, look);
  CHECK(words_of(look.points) == logged);
  database.run("INSERT INTO metrics VALUES('loss',0.25,1795806108999,'r',6,0)");
  look = {};
  read_mlflow(file_at(database.path()), place, look);
  CHECK(words_of(look.points) == Words{"loss@6=0.25"});
  CHECK(look.points[0].writer == "r");
  CHECK(look.notes.empty());
  SourceFile later = file_at(database.path());
  later.places.since_ms = 1795806108999;  // of what an attempt before added nothing is told
  SourcePlace fresh;
  look = {};
  read_mlflow(later, fresh, look);
  CHECK(words_of(look.points) == Words{"loss@6=0.25"});
}

TEST_CASE("a locked database is said once, and nothing of it is lost") {
  const FakeRoot root;
  AnMlflowDatabase database(root.below("/mlflow.db"));
  database.run("BEGIN EXCLUSIVE");
  SourcePlace place;
  MetricLook look;
  for (int time = 0; time < 2; ++time) read_mlflow(file_at(database.path()), place, look);
  REQUIRE(look.notes.size() == 1);
  CHECK_THAT(look.notes[0], ContainsSubstring("locked"));
  CHECK(look.points.empty());
  database.run("COMMIT");
  read_mlflow(file_at(database.path()), place, look);
  CHECK(words_of(look.points) == logged);
}

TEST_CASE("a database that was locked is read although it has not changed since") {
  const FakeRoot root;
  AnMlflowDatabase database(root.below("/mlflow.db"));
  database.run("BEGIN EXCLUSIVE");
  const MetricPlaces places{{root.below("/")}};
  const MetricLook locked = look_at_metrics(places, {});
  CHECK(locked.lines.empty());
  database.run("COMMIT");
  CHECK(look_at_metrics(places, locked.state).lines.size() == 5);
}

TEST_CASE("a database of another schema, or none, is said once and read when it is one") {
  const FakeRoot root;
  AnMlflowDatabase database(root.below("/mlflow.db"));
  database.run("ALTER TABLE metrics RENAME COLUMN is_nan TO flags");
  SourcePlace place, other;
  MetricLook look;
  for (int time = 0; time < 2; ++time) read_mlflow(file_at(database.path()), place, look);
  REQUIRE(look.notes.size() == 1);
  CHECK_THAT(look.notes[0], ContainsSubstring("not as MLflow 2 and 3 make it") &&
                                ContainsSubstring("no such column"));
  database.run("ALTER TABLE metrics RENAME COLUMN flags TO is_nan");
  database.run("ALTER TABLE metrics ADD COLUMN more TEXT");  // a later one has more
  read_mlflow(file_at(database.path()), place, look);
  CHECK(words_of(look.points) == logged);
  look = {};
  put_bytes(root.below("/text.db"), std::string(5000, 'x'));
  put_bytes(root.below("/empty.db"), "");
  for (const char* name : {"/text.db", "/empty.db", "/absent.db"}) {
    read_mlflow(file_at(root.below(name)), other, look);
  }
  CHECK(look.notes.size() == 1);
  CHECK(look.points.empty());
}

TEST_CASE("a database that is cut or changed anywhere ends nothing") {
  const FakeRoot root;
  std::string whole;
  {
    AnMlflowDatabase database(root.below("/mlflow.db"));
    std::ifstream file(database.path(), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole.substr(0, round % 2 ? random() % whole.size() : whole.size());
    for (int i = 0; i < 8 && !bytes.empty(); ++i) bytes[random() % bytes.size()] ^= 1 << i;
    put_bytes(root.below("/mlflow.db"), bytes);
    SourcePlace place;
    MetricLook look;
    read_mlflow(file_at(root.below("/mlflow.db")), place, look);
    CHECK(look.points.size() < 1000);
  }
}
