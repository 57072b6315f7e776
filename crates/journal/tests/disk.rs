//! The real folder: private, locked, no links followed.

use mainspring_journal::{Batch, DiskFolder, Error, Journal, Options, Restored};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const OPTIONS: Options = Options { segment_bytes: 64 << 10 };

#[test]
fn the_folder_and_its_files_are_their_owners_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journal");
    let folder = DiskFolder::open(&path).unwrap();
    let (journal, _) = Journal::open(folder, OPTIONS, &mut |_| ()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    drop(journal);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(DiskFolder::open(&path), Err(Error::NotPrivate { .. })));
}

#[test]
fn one_process_at_a_time_has_it_open() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journal");
    let first = DiskFolder::open(&path).unwrap();
    assert!(matches!(DiskFolder::open(&path), Err(Error::InUse { .. })));
    let copy = first.try_clone().unwrap();
    drop(first);
    assert!(matches!(DiskFolder::open(&path), Err(Error::InUse { .. })));
    assert!(DiskFolder::open_to_read(&path).is_ok());
    drop(copy);
    assert!(DiskFolder::open(&path).is_ok());
}

#[test]
fn symbolic_links_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let real = place.path().join("real");
    drop(DiskFolder::open(&real).unwrap());
    let link = place.path().join("link");
    symlink(&real, &link).unwrap();
    assert!(DiskFolder::open(&link).is_err());
    let victim = place.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, real.join("identity")).unwrap();
    let folder = DiskFolder::open(&real).unwrap();
    assert!(Journal::open(folder, OPTIONS, &mut |_| ()).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn a_symbolic_link_was_followed_if_its_path_ended_in_a_slash() {
    let place = tempfile::tempdir().unwrap();
    let real = place.path().join("real");
    drop(DiskFolder::open(&real.join("")).unwrap());
    symlink(&real, place.path().join("link")).unwrap();
    symlink(place.path().join("nowhere"), place.path().join("dangling")).unwrap();
    for end in ["/", "//", "/.", "/./", "/././"] {
        for name in ["link", "dangling"] {
            let path = place.path().join(format!("{name}{end}"));
            assert!(DiskFolder::open(&path).is_err(), "{path:?}");
            assert!(DiskFolder::open_to_read(&path).is_err(), "{path:?}");
        }
        let path = place.path().join(format!("real{end}"));
        assert!(DiskFolder::open(&path).is_ok(), "{path:?}");
    }
    assert!(!place.path().join("nowhere").exists());
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journal");
    for round in 0..3_u8 {
        let mut found = Vec::new();
        let (mut journal, opened) =
            Journal::open(DiskFolder::open(&path).unwrap(), OPTIONS, &mut |restored| {
                if let Restored::Record(record) = restored {
                    found.push(record.data[0]);
                }
            })
            .unwrap();
        assert_eq!(found.len(), usize::from(round) * 40);
        let mut batch = Batch::new(opened.next);
        for _ in 0..40 {
            batch.push(1, 1, &[&[round; 900]]).unwrap();
            journal.write(&mut batch, 0).unwrap();
        }
        if round == 1 {
            journal.close(0).unwrap();
        }
    }
}

#[test]
fn other_peoples_unfinished_files_were_deleted_and_a_folder_kept_a_journal_from_opening() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journal");
    drop(DiskFolder::open(&path).unwrap());
    fs::write(path.join("letter.tmp"), "mine").unwrap();
    fs::create_dir(path.join("drafts.tmp")).unwrap();
    let open = || Journal::open(DiskFolder::open(&path).unwrap(), OPTIONS, &mut |_| ()).map(drop);
    open().unwrap();
    // What a crash leaves behind goes.
    let own = ["next.segment.tmp", "identity.tmp", "0000000000000005.snapshot.tmp"];
    for name in own {
        fs::write(path.join(name), "half").unwrap();
    }
    open().unwrap();
    assert_eq!(fs::read_to_string(path.join("letter.tmp")).unwrap(), "mine");
    assert!(path.join("drafts.tmp").is_dir());
    assert!(own.iter().all(|name| !path.join(name).exists()));
}
