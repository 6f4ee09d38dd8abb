"""What can a user do? One file per verb over log and split."""
